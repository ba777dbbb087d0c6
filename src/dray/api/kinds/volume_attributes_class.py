"""VolumeAttributesClass: mutable attributes of volumes. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, text
from dray.api.kind import KindRules, Resource
from dray.api.types import storage

KIND = Resource(
    storage.VolumeAttributesClass,
    namespaced=False,
    short_names=("vac",),
    inert=True,
    columns=(NAME, text("DriverName", "driverName"), AGE),
    rules=KindRules(order=("changes", "metadata", "rules")),
    is_returned_when_deleted=True,
)
