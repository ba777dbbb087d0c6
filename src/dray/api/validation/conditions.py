"""Conditions: typed observations with a reason, in the status of many kinds."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dray.api.constraints import checked
from dray.api.errors import duplicate, invalid, required
from dray.api.paths import Path
from dray.api.types import meta
from dray.api.validation.lists import Errors

STATUSES = ("False", "True", "Unknown")
REASON_MAX = 1024
MESSAGE_MAX = 32768
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"


def conditions(items: Sequence[meta.Condition], path: Path) -> Errors:
    seen: set[str] = set()
    for index, item in enumerate(items):
        if item.type in seen:
            yield duplicate(path / index / "type", item.type)
        seen.add(item.type)
        yield from _condition(item, path / index)


def _condition(item: meta.Condition, path: Path) -> Errors:
    yield from checked("io.k8s.apimachinery.pkg.apis.meta.v1.Condition", item, path)
    yield from _reason(item.reason, path / "reason")
    if len(item.message) > MESSAGE_MAX:
        yield invalid(path / "message", item.message, f"must be no more than {MESSAGE_MAX} characters")


def _reason(reason: str, path: Path) -> Errors:
    if not reason:
        yield required(path, "must be set")
        return
    if not re.fullmatch(_REASON, reason):
        text = (
            "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
            "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  "
            f"or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
        )
        yield invalid(path, reason, text)
    if len(reason) > REASON_MAX:
        yield invalid(path, reason, f"must be no more than {REASON_MAX} characters")
