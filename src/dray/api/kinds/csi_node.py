"""CSINode: the storage drivers of a node. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number
from dray.api.kind import STATUS, Resource
from dray.api.types import storage

KIND = Resource(
    storage.CSINode,
    namespaced=False,
    subresources=STATUS,
    inert=True,
    columns=(NAME, number("Drivers", lambda node: len(node.spec.drivers or ())), AGE),
    conditional=("v1",),
    is_returned_when_deleted=True,
)
