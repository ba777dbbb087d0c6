"""Secret: passwords, tokens and keys that pods read."""

from __future__ import annotations

import base64
from operator import attrgetter

from dray.api.columns import AGE, NAME, number, text
from dray.api.kind import Resource
from dray.api.types import core
from dray.api.wire import Tree


def _encode(tree: Tree) -> None:
    """Move the write-only `stringData` into `data`, encoded as base64."""
    plain = tree.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        tree["data"] = {**(tree.get("data") or {}), **encoded}


KIND = Resource(
    core.Secret,
    columns=(NAME, text("Type", "type"), number("Data", lambda secret: len(secret.data)), AGE),
    defaults={"type": "Opaque"},
    more_defaults=_encode,
    selectable={"type": attrgetter("type")},
)
