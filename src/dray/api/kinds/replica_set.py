"""ReplicaSet: runs a number of identical pods."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number
from dray.api.kind import ALL, SCALED, Resource
from dray.api.podspecs import template_defaults
from dray.api.templates import TEMPLATE_COLUMNS, pod_guards, template_warnings
from dray.api.types import apps
from dray.api.wire import Tree


def _defaults(tree: Tree) -> None:
    template_defaults(tree["spec"])


KIND = Resource(
    apps.ReplicaSet,
    short_names=("rs",),
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
    selectable={"status.replicas": lambda set_: str(set_.status.replicas)},
)
