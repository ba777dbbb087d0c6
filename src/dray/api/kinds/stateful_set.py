"""StatefulSet: keeps numbered pods, each with its own name and volumes."""

from __future__ import annotations

from dray.api.cells import images, names
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import ALL, SCALED, Resource
from dray.api.types import apps

KIND = Resource(
    "apps",
    "statefulsets",
    "StatefulSet",
    apps.StatefulSet,
    short_names=("sts",),
    categories=ALL,
    subresources=SCALED,
    columns=(
        NAME,
        text("Ready", lambda set_: f"{set_.status.readyReplicas}/{set_.spec.replicas or 0}"),
        AGE,
        wide("Containers", lambda set_: names(set_.spec.template.spec.containers)),
        wide("Images", lambda set_: images(set_.spec.template.spec.containers)),
    ),
)
