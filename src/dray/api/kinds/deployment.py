"""Deployment: runs a number of identical pods and replaces them gradually when the template changes."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, TableColumn, text
from dray.api.kind import ALL, SCALED, Resource
from dray.api.podspecs import template_defaults
from dray.api.templates import TEMPLATE_COLUMNS, pod_guards, template_warnings
from dray.api.types import apps
from dray.api.wire import Tree


def _defaults(tree: Tree) -> None:
    spec = tree["spec"]
    if spec["strategy"]["type"] == "RollingUpdate":
        rolling = spec["strategy"].setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    template_defaults(spec)


KIND = Resource(
    apps.Deployment,
    short_names=("deploy",),
    categories=ALL,
    subresources=SCALED,
    columns=(
        NAME,
        text("Ready", lambda deployment: f"{deployment.status.readyReplicas}/{deployment.spec.replicas or 0}"),
        TableColumn("Up-to-date", lambda deployment, now: deployment.status.updatedReplicas),
        TableColumn("Available", lambda deployment, now: deployment.status.availableReplicas),
        AGE,
        *TEMPLATE_COLUMNS,
    ),
    generation=("spec",),
    is_steered_by_annotations=True,
    status_writes_metadata=True,
    defaults={
        "spec.replicas": 1,
        "spec.revisionHistoryLimit": 10,
        "spec.progressDeadlineSeconds": 600,
        "spec.strategy.type": "RollingUpdate",
    },
    more_defaults=_defaults,
    warnings=template_warnings("spec.template"),
    guards=pod_guards("spec.template.spec"),
)
