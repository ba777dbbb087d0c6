"""One thing that is wrong with a manifest."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Level = Literal["error", "warning", "hint"]


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `error` keeps the object from working, a `warning` probably does, a `hint` may under circumstances.

    `line` is that of the field in its file, where it is known. `rewritten` is the whole object as it should be, where that is known.
    """

    level: Level
    place: str
    field: str
    text: str
    line: int = 0
    rewritten: dict[str, Any] | None = None
