"""NetworkPolicy: who may talk to some pods. It is only stored."""

from __future__ import annotations

from dray.api.cells import selector
from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.trees import fill
from dray.api.types import networking
from dray.api.wire import Tree


def _directions(tree: Tree) -> None:
    """A policy is about ingress, and about egress too where it says something about that."""
    spec = tree.setdefault("spec", {})
    fill(spec, "policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


KIND = Resource(
    networking.NetworkPolicy,
    short_names=("netpol",),
    inert=True,
    columns=(NAME, text("Pod-Selector", lambda policy: selector(policy.spec.podSelector)), AGE),
    generation=("spec",),
    defaults={"spec.ingress[].ports[].protocol": "TCP", "spec.egress[].ports[].protocol": "TCP"},
    more_defaults=_directions,
)
