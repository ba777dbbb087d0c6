"""ReplicationController: runs a number of identical pods; predecessor of ReplicaSet."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number
from dray.api.kind import ALL, SCALED, Resource
from dray.api.podspecs import template_defaults
from dray.api.templates import TEMPLATE_COLUMNS, pod_guards, template_warnings
from dray.api.trees import fill
from dray.api.types import core
from dray.api.wire import Tree


def _defaults(tree: Tree) -> None:
    """Add the defaults of the pod template, and default the selector and labels to the template's labels."""
    spec = tree["spec"]
    if spec.get("template") is None:  # validation reports this
        return
    template_defaults(spec)
    if labels := (spec["template"].get("metadata") or {}).get("labels"):
        for holder, name in ((spec, "selector"), (tree.setdefault("metadata", {}), "labels")):
            fill(holder, name, dict(labels))


KIND = Resource(
    core.ReplicationController,
    short_names=("rc",),
    categories=ALL,
    subresources=SCALED,
    columns=(
        NAME,
        number("Desired", "spec.replicas"),
        number("Current", "status.replicas"),
        number("Ready", "status.readyReplicas"),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    generation=("spec",),
    status_writes_metadata=True,
    defaults={"spec.replicas": 1},
    more_defaults=_defaults,
    warnings=template_warnings("spec.template"),
    guards=pod_guards("spec.template.spec"),
    selectable={"status.replicas": lambda controller: str(controller.status.replicas)},
    keeps_dependents=True,
)
