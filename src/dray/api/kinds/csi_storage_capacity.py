"""CSIStorageCapacity: remaining storage of a StorageClass for some nodes. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.types import storage

KIND = Resource(
    storage.CSIStorageCapacity,
    inert=True,
    columns=(NAME, text("StorageClassName", "storageClassName"), text("Capacity", "capacity", UNSET), AGE),
    conditional=("v1",),
)
