"""Deployment: keeps a number of equal pods and replaces them step by step when their template changes."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, TableColumn, text
from dray.api.kind import ALL, SCALED, Resource
from dray.api.templates import TEMPLATE_COLUMNS
from dray.api.types import apps

KIND = Resource(
    "apps",
    "deployments",
    "Deployment",
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
)
