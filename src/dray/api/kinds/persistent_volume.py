"""PersistentVolume: storage that a claim can be bound to."""

from __future__ import annotations

from dray.api.kind import STATUS, Resource
from dray.api.types import core

KIND = Resource(
    "",
    "persistentvolumes",
    "PersistentVolume",
    core.PersistentVolume,
    namespaced=False,
    short_names=("pv",),
    subresources=STATUS,
)
