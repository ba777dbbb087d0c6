"""StorageClass: how volumes are provided."""

from __future__ import annotations

from dray.api.kind import STORAGE, Resource
from dray.api.types import storage

KIND = Resource(STORAGE, "storageclasses", "StorageClass", storage.StorageClass, namespaced=False, short_names=("sc",))
