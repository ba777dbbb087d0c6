"""StatefulSet: keeps numbered pods, each with its own name and volumes."""

from __future__ import annotations

from dray.api.kind import ALL, SCALED, Resource
from dray.api.types import apps

KIND = Resource(
    "apps", "statefulsets", "StatefulSet", apps.StatefulSet, short_names=("sts",), categories=ALL, subresources=SCALED
)
