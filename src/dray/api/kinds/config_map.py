"""ConfigMap: configuration data that pods read."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, TableColumn
from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource(
    core.ConfigMap,
    short_names=("cm",),
    columns=(NAME, TableColumn("Data", lambda map_, now: len(map_.data) + len(map_.binaryData)), AGE),
)
