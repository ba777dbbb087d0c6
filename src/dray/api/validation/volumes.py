"""Volumes of a pod: a name and exactly one source, and of common sources what they cannot do without."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import duplicate, forbidden, invalid, required
from dray.api.paths import Path
from dray.api.quantity import Quantity
from dray.api.schema import CORE
from dray.api.types import core
from dray.api.validation import downward
from dray.api.validation.filepaths import file_mode, unreserved, without_backsteps
from dray.api.validation.lists import Errors, each, one_of, required_name

_SOURCES = tuple(name for name in core.Volume.__struct_fields__ if name != "name")
HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_SHORTEST_TOKEN = 600
_LONGEST_TOKEN = 2**32
# What a source cannot do without is a constraint of its message.
_MESSAGES: Mapping[str, str] = {
    "secret": f"{CORE}SecretVolumeSource",
    "configMap": f"{CORE}ConfigMapVolumeSource",
    "persistentVolumeClaim": f"{CORE}PersistentVolumeClaimVolumeSource",
    "nfs": f"{CORE}NFSVolumeSource",
    "csi": f"{CORE}CSIVolumeSource",
    "iscsi": f"{CORE}ISCSIVolumeSource",
    "glusterfs": f"{CORE}GlusterfsVolumeSource",
    "image": f"{CORE}ImageVolumeSource",
}


def volumes(items: tuple[core.Volume, ...], path: Path) -> Errors:
    seen: set[str] = set()
    for index, volume in enumerate(items):
        here = path / index
        yield from _source(volume, here)
        yield from required_name(volume.name, here / "name", names.label)
        if volume.name in seen:
            yield duplicate(here / "name", volume.name)
        seen.add(volume.name)


def _source(volume: core.Volume, path: Path) -> Errors:
    chosen = [name for name in _SOURCES if getattr(volume, name) is not None]
    if not chosen:
        yield required(path, "must specify a volume type")
    for name in chosen[1:]:
        yield forbidden(path / name, "may not specify more than 1 volume type")
    for name in chosen[:1]:
        source = getattr(volume, name)
        if message := _MESSAGES.get(name):
            yield from checked(message, source, path / name)
        if check := _CHECKS.get(name):
            yield from check(source, path / name)


def host_path(source: core.HostPathVolumeSource, path: Path) -> Errors:
    if not source.path:
        yield required(path / "path")
    yield from without_backsteps(source.path, path / "path")
    yield from one_of(source.type, HOST_PATH_TYPES, path / "type")


def _empty_dir(source: core.EmptyDirVolumeSource, path: Path) -> Errors:
    if source.sizeLimit is not None and Quantity.parse(source.sizeLimit).sign < 0:
        yield forbidden(path / "sizeLimit", "SizeLimit field must be a valid resource quantity")


def _keys(source: Any, path: Path) -> Errors:
    """A volume made of the keys of an object."""
    yield from file_mode(source.defaultMode, path / "defaultMode")
    yield from each(source.items, path / "items", _item)


def _item(item: core.KeyToPath, path: Path) -> Errors:
    if not item.key:
        yield required(path / "key")
    if not item.path:
        yield required(path / "path")
    yield from unreserved(item.path, path / "path")
    yield from file_mode(item.mode, path / "mode")


def _downward(source: core.DownwardAPIVolumeSource, path: Path) -> Errors:
    yield from file_mode(source.defaultMode, path / "defaultMode")
    for item in source.items:
        yield from downward.file(item, path)  # Kubernetes leaves out which one


def _projected(source: core.ProjectedVolumeSource, path: Path) -> Errors:
    yield from file_mode(source.defaultMode, path / "defaultMode")
    seen: set[str] = set()
    for index, projection in enumerate(source.sources or ()):
        here = path / "sources" / index
        chosen = [name for name in projection.__struct_fields__ if getattr(projection, name) is not None]
        for name in chosen[1:]:
            yield forbidden(here / name, "may not specify more than 1 volume type per source")
        for name in ("configMap", "secret"):
            part = getattr(projection, name)
            if part is not None:
                if not part.name:
                    yield required(here / name / "name")
                yield from each(part.items, here / name / "items", _item)
        for item in projection.downwardAPI.items if projection.downwardAPI is not None else ():
            yield from downward.file(item, here / "downwardAPI")
        if projection.serviceAccountToken is not None:
            yield from _token(projection.serviceAccountToken, here / "serviceAccountToken")
        if projection.clusterTrustBundle is not None:
            yield from unreserved(projection.clusterTrustBundle.path, here / "clusterTrustBundle" / "path")
        yield from _duplicates(projection, seen, path)


def _token(token: core.ServiceAccountTokenProjection, path: Path) -> Errors:
    seconds = token.expirationSeconds
    if seconds is not None and seconds < _SHORTEST_TOKEN:
        yield invalid(path / "expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > _LONGEST_TOKEN:
        yield invalid(path / "expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if not token.path:
        yield required(path / "path")
    yield from unreserved(token.path, path / "path")


def _duplicates(projection: core.VolumeProjection, seen: set[str], path: Path) -> Errors:
    """No two sources of a volume write the same file."""
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


_CHECKS: Mapping[str, Callable[[Any, Path], Errors]] = {
    "hostPath": host_path,
    "emptyDir": _empty_dir,
    "secret": _keys,
    "configMap": _keys,
    "downwardAPI": _downward,
    "projected": _projected,
}
