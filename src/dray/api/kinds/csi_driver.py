"""CSIDriver: what a storage driver needs and can do. It is only stored."""

from __future__ import annotations

from dray.api.kind import STORAGE, Resource
from dray.api.types import storage

KIND = Resource(STORAGE, "csidrivers", "CSIDriver", storage.CSIDriver, namespaced=False, inert=True)
