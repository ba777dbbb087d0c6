"""Deployment: runs a number of identical pods and replaces them gradually when the template changes."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, TableColumn, text
from dray.api.counts import at_most_all, count
from dray.api.errors import invalid
from dray.api.kind import ALL, SCALED, Resource
from dray.api.paths import Path
from dray.api.podspecs import template_defaults
from dray.api.rules import Errors
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


def progress(spec: apps.DeploymentSpec, path: Path) -> Errors:
    """Yield an error if progressDeadlineSeconds of a Deployment is not greater than minReadySeconds."""
    deadline = spec.progressDeadlineSeconds
    if deadline is not None and deadline <= spec.minReadySeconds:
        yield invalid(path / "progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def some_progress(update: apps.RollingUpdateDeployment, path: Path) -> Errors:
    """Yield errors in the rolling update of a Deployment: maxUnavailable and maxSurge must not both be 0."""
    if not count(update.maxUnavailable) and not count(update.maxSurge):
        yield invalid(path / "maxUnavailable", update.maxUnavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_all(update.maxUnavailable, path / "maxUnavailable")
