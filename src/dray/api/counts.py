"""Counts that may be percentages, such as maxUnavailable: what is wrong with them, and how many they are."""

from __future__ import annotations

import re

from dray.api.errors import invalid
from dray.api.paths import Path
from dray.api.rules import Errors, at_least

_NUMBER = re.compile("[0-9]+%?")


def count(value: int | str | None) -> int:
    """Return the number in a count or percentage, for example 25 for `25%`; 0 for None or any other text."""
    if isinstance(value, str):
        return int(value.removesuffix("%")) if _NUMBER.fullmatch(value) else 0
    return value or 0


def at_most_all(value: int | str | None, path: Path) -> Errors:
    if isinstance(value, str) and value.endswith("%") and count(value) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def scaled(value: int | str | None, path: Path) -> Errors:
    """Yield errors if the value is neither a non-negative count nor a percentage. None is valid."""
    if isinstance(value, int):
        yield from at_least(value, 0, path)
    elif value is not None and not (value.endswith("%") and _NUMBER.fullmatch(value)):
        text = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
        yield invalid(path, value, f"{text}used for validation is '[0-9]+%')")
