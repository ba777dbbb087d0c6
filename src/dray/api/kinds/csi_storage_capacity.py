"""CSIStorageCapacity: how much storage a class has left for some nodes. It is only stored."""

from __future__ import annotations

from dray.api.kind import STORAGE, Resource
from dray.api.types import storage

KIND = Resource(STORAGE, "csistoragecapacities", "CSIStorageCapacity", storage.CSIStorageCapacity, inert=True)
