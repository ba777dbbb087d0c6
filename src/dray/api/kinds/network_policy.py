"""NetworkPolicy: restricts network traffic of pods. Stored only; dray does not enforce it."""

from __future__ import annotations

from dray.api.cells import selector
from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.trees import fill
from dray.api.types import networking
from dray.api.wire import Tree


def _directions(tree: Tree) -> None:
    """Default policyTypes to Ingress, and also Egress if the policy has egress rules."""
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
