"""Secret: passwords, tokens and keys that pods read."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number, text
from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource(
    "",
    "secrets",
    "Secret",
    core.Secret,
    columns=(
        NAME,
        text("Type", "type"),
        number("Data", lambda secret: len(secret.data)),
        AGE,
    ),
)
