"""CSINode: the storage drivers of a node. Stored only; dray does not act on it."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api import names
from dray.api.columns import AGE, NAME, number
from dray.api.errors import duplicate, invalid, required
from dray.api.kind import STATUS, Resource
from dray.api.paths import Path
from dray.api.rules import Errors, named
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


def topology_keys(driver: storage.CSINodeDriver, path: Path) -> Errors:
    """Yield errors in the topology keys of a CSI driver, including duplicates."""
    keys: Sequence[str] = driver.topologyKeys or ()
    for position, key in enumerate(keys):
        if not key:
            yield required(path)
        if key in keys[:position]:
            yield duplicate(path, key)
        yield from named(key, path, names.qualified_name)


def same_drivers(
    drivers: Sequence[storage.CSINodeDriver], old: Sequence[storage.CSINodeDriver] | None, path: Path
) -> Errors:
    """Yield errors if an update changes the node ID or topology keys of a driver. Drivers may be added and removed."""
    known = {driver.name: driver for driver in old or ()}
    for driver in drivers or ():
        before = known.get(driver.name)
        if before is not None and (driver.nodeID, driver.topologyKeys) != (before.nodeID, before.topologyKeys):
            yield invalid(path, driver, "field is immutable")
