"""Rules for volumes that cannot be expressed as steps: exactly one source, and distinct file paths."""

from __future__ import annotations

import posixpath

from dray.api import schema
from dray.api.constraints import checked
from dray.api.errors import forbidden, invalid, required
from dray.api.paths import Path
from dray.api.quantity import Quantity
from dray.api.rules import Errors
from dray.api.schema import CORE
from dray.api.types import core

_SOURCES = tuple(name for name in core.Volume.__struct_fields__ if name != "name")
_PROJECTIONS = ("configMap", "secret", "downwardAPI", "serviceAccountToken", "clusterTrustBundle")  # Kubernetes' order


def source(volume: core.Volume, path: Path) -> Errors:
    """Yield errors unless a pod's volume has exactly one valid source.

    Of several sources, only the first is validated.
    """
    chosen = [name for name in _SOURCES if getattr(volume, name) is not None]
    if not chosen:
        yield required(path, "must specify a volume type")
    for name in chosen[1:]:
        yield forbidden(path / name, "may not specify more than 1 volume type")
    for name in chosen[:1]:
        message = schema.message(f"{CORE}Volume").fields[name].reference
        yield from checked(message, getattr(volume, name), path / name)


def size_limit(amount: str, path: Path) -> Errors:
    """Yield an error if the size limit of an emptyDir is negative."""
    if Quantity.parse(amount).sign < 0:
        yield forbidden(path, "SizeLimit field must be a valid resource quantity")


def downward_files(part: core.DownwardAPIVolumeSource | core.DownwardAPIProjection, path: Path) -> Errors:
    for item in part.items:
        yield from checked(f"{CORE}DownwardAPIVolumeFile", item, path)  # as in Kubernetes, without an index


def projections(volume: core.ProjectedVolumeSource, path: Path) -> Errors:
    """Yield errors in the sources of a projected volume, including duplicate file paths."""
    seen: set[str] = set()
    for index, projection in enumerate(volume.sources or ()):
        here = path / "sources" / index
        chosen = [name for name in projection.__struct_fields__ if getattr(projection, name) is not None]
        for name in chosen[1:]:
            yield forbidden(here / name, "may not specify more than 1 volume type per source")
        for name in _PROJECTIONS:
            part = getattr(projection, name)
            if isinstance(part, core.DownwardAPIProjection):
                yield from downward_files(part, here / name)
            elif part is not None:
                yield from checked(f"{CORE}{type(part).__name__}", part, here / name)
        yield from _duplicates(projection, seen, path)


def _duplicates(projection: core.VolumeProjection, seen: set[str], path: Path) -> Errors:
    """Yield errors if several sources of a volume write the same file.

    `seen` has the paths of the sources before; those of this source are added.
    """
    for part in (projection.secret, projection.configMap, projection.downwardAPI):
        for item in part.items if part is not None else ():
            whose = item.path if part is projection.downwardAPI else getattr(part, "name", "")
            yield from _once(item.path, whose, seen, path)
    if projection.serviceAccountToken is not None:
        yield from _once(projection.serviceAccountToken.path, projection.serviceAccountToken.path, seen, path)


def _once(file: str, shown: str, seen: set[str], path: Path) -> Errors:
    name = posixpath.normpath(file) if file else ""
    if name and name in seen:
        yield invalid(path, shown, "conflicting duplicate paths")
    seen.add(name)
