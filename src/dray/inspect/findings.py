"""Result type of lint rules."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Level = Literal["error", "warning", "hint"]


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem in a manifest. An `error` prevents the object from working, a `warning` probably does, a `hint` may.

    `line` is the line of the field in its file, 0 if unknown. `rewritten` is the corrected object, if known.
    """

    level: Level
    place: str
    field: str
    text: str
    line: int = 0
    rewritten: dict[str, Any] | None = None
