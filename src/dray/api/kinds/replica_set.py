"""ReplicaSet: keeps a number of equal pods."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number
from dray.api.kind import ALL, SCALED, Resource
from dray.api.templates import TEMPLATE_COLUMNS
from dray.api.types import apps

KIND = Resource(
    "apps",
    "replicasets",
    "ReplicaSet",
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
)
