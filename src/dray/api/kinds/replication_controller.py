"""ReplicationController: keeps a number of equal pods; the predecessor of ReplicaSet."""

from __future__ import annotations

from dray.api.kind import ALL, SCALED, Resource
from dray.api.types import core

KIND = Resource(
    "",
    "replicationcontrollers",
    "ReplicationController",
    core.ReplicationController,
    short_names=("rc",),
    categories=ALL,
    subresources=SCALED,
)
