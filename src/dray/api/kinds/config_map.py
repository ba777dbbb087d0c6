"""ConfigMap: configuration data that pods read."""

from __future__ import annotations

from dray.api import names
from dray.api.columns import AGE, NAME, TableColumn
from dray.api.errors import forbidden, invalid, too_long
from dray.api.kind import Resource
from dray.api.paths import Path
from dray.api.rules import Errors, named
from dray.api.types import core

DATA_MAX = 1024 * 1024


KIND = Resource(
    core.ConfigMap,
    short_names=("cm",),
    columns=(NAME, TableColumn("Data", lambda map_, now: len(map_.data) + len(map_.binaryData)), AGE),
)


def config_map(value: core.ConfigMap, _: Path | None) -> Errors:
    """Yield errors in the keys and the total size of a ConfigMap."""
    size = 0
    for key, text in value.data.items():
        yield from named(key, Path("data") % key, names.config_key)
        if key in value.binaryData:
            yield invalid(Path("data") % key, key, "duplicate of key present in binaryData")
        size += len(text.encode())
    for key, text in value.binaryData.items():
        yield from named(key, Path("binaryData") % key, names.config_key)
        size += len(text) * 3 // 4
    if size > DATA_MAX:
        yield too_long("", DATA_MAX)


def immutable_data(value: core.ConfigMap | core.Secret, old: core.ConfigMap | core.Secret, _: Path | None) -> Errors:
    """Yield errors if an update changes the data of an immutable ConfigMap or Secret, or makes it mutable."""
    if not old.immutable:
        return
    if not value.immutable:
        yield forbidden(Path("immutable"), "field is immutable when `immutable` is set")
    for field in ("data", "binaryData"):
        if getattr(value, field, None) != getattr(old, field, None):
            yield forbidden(Path(field), "field is immutable when `immutable` is set")
