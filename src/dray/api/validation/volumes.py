"""Volumes of a pod: a name and exactly one source, and of common sources what they cannot do without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required
from dray.api.quantity import Quantity
from dray.api.types import core
from dray.api.validation.lists import Errors, named, required_name
from dray.api.validation.paths import Path

_SOURCES = tuple(name for name in core.Volume.__struct_fields__ if name != "name")
# The fields of a source that must not be empty.
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "secret": ("secretName",),
    "configMap": ("name",),
    "persistentVolumeClaim": ("claimName",),
    "nfs": ("server", "path"),
    "csi": ("driver",),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "image": ("reference",),
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
        for field in _NEEDED.get(name, ()):
            if not getattr(source, field):
                yield required(path / name / field)
        if check := _CHECKS.get(name):
            yield from check(source, path / name)


def _host_path(source: core.HostPathVolumeSource, path: Path) -> Errors:
    if not source.path:
        yield required(path / "path")
    elif ".." in source.path.split("/"):
        yield invalid(path / "path", source.path, "must not contain '..'")


def _empty_dir(source: core.EmptyDirVolumeSource, path: Path) -> Errors:
    if source.sizeLimit is not None and Quantity.parse(source.sizeLimit).sign < 0:
        yield forbidden(path / "sizeLimit", "SizeLimit field must be a valid resource quantity")


def _items(source: Any, path: Path) -> Errors:
    for index, item in enumerate(source.items):
        here = path / "items" / index
        if not item.key:
            yield required(here / "key")
        if not item.path:
            yield required(here / "path")
        elif item.path.startswith("/"):
            yield invalid(here / "path", item.path, "must be a relative path")
        elif ".." in item.path.split("/"):
            yield invalid(here / "path", item.path, "must not contain '..'")


def _projected(source: core.ProjectedVolumeSource, path: Path) -> Errors:
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
                yield from _items(part, here / name)
        token = projection.serviceAccountToken
        if token is not None:
            if token.expirationSeconds is not None and token.expirationSeconds < 600:
                text = "may not specify a duration less than 10 minutes"
                yield invalid(here / "serviceAccountToken" / "expirationSeconds", token.expirationSeconds, text)
            if not token.path:
                yield required(here / "serviceAccountToken" / "path")


def _claim(source: core.PersistentVolumeClaimVolumeSource, path: Path) -> Errors:
    if source.claimName:
        yield from named(source.claimName, path / "claimName", names.subdomain)


_CHECKS: Mapping[str, Callable[[Any, Path], Errors]] = {
    "hostPath": _host_path,
    "emptyDir": _empty_dir,
    "secret": _items,
    "configMap": _items,
    "projected": _projected,
    "persistentVolumeClaim": _claim,
}
