"""Rules for storage classes, CSI drivers and attachments that cannot be expressed as steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required, too_long
from dray.api.paths import Path
from dray.api.types import core, storage
from dray.api.validation.lists import Errors, named, unique
from dray.api.validation.storage import inline_spec

_PARAMETERS_MAX = 512
_PARAMETERS_BYTES_MAX = 256 * 1024


def topologies(terms: Sequence[core.TopologySelectorTerm], path: Path) -> Errors:
    """Yield errors in the allowed topologies of a StorageClass, including duplicate terms."""
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(terms):
        expressions = path / index / "matchLabelExpressions"
        wanted: dict[str, set[str]] = {}
        for position, expression in enumerate(term.matchLabelExpressions):
            here = expressions / position
            if not expression.values:
                yield required(here / "values")
            yield from unique(expression.values, here / "values", str)
            yield from named(expression.key, here / "key", names.qualified_name)
            if expression.key in wanted:
                yield duplicate(here / "key", expression.key)
            wanted[expression.key] = {*expression.values}
        if wanted in seen:
            yield duplicate(expressions, "")
        seen.append(wanted)


def parameters(given: Mapping[str, str], path: Path) -> Errors:
    """Yield errors if a StorageClass has an empty parameter name, too many parameters, or too large ones."""
    if len(given) > _PARAMETERS_MAX:
        yield too_long(path, _PARAMETERS_MAX)
        return
    if "" in given:
        yield invalid(path, "", "field can not be empty.")
    if sum(len(key) + len(value) for key, value in given.items()) > _PARAMETERS_BYTES_MAX:
        yield too_long(path, _PARAMETERS_BYTES_MAX)


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


def attachment_source(source: storage.VolumeAttachmentSource, path: Path) -> Errors:
    """Yield errors unless exactly one of a volume name and a valid inline volume is set."""
    inline, volume = source.inlineVolumeSpec, source.persistentVolumeName
    if inline is None and volume is None:
        yield required(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif inline is not None and volume is not None:
        yield forbidden(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif volume is not None and not volume:
        yield required(path / "persistentVolumeName", "must specify non empty persistentVolumeName")
    elif inline is not None:
        yield from inline_spec(inline, path / "inlineVolumeSpec")
