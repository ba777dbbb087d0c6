"""ReplicaSet: keeps a number of equal pods."""

from __future__ import annotations

from dray.api.kind import ALL, SCALED, Resource
from dray.api.types import apps

KIND = Resource(
    "apps", "replicasets", "ReplicaSet", apps.ReplicaSet, short_names=("rs",), categories=ALL, subresources=SCALED
)
