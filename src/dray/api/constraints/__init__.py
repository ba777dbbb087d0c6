"""Constraints of fields: data in the schema table, compiled once for each message.

A field's column `c` lists what Kubernetes' schema says of it: `required`, `format=k8s-short-name`, `maxItems=32` and so on.
`judged` compiles the constraints of a message and of everything below it into one Python function, and returns the errors
of an object in the order in which Kubernetes tells them: a union before the fields of its message, fields by their numbers,
a field before what it holds. What an update leaves as it was is not judged again. Rules that no constraint can express stay
functions (`dray.api.validation`).
"""

from __future__ import annotations

from typing import Any

from dray.api.constraints.compiler import checker, suspicion
from dray.api.errors import FieldError
from dray.api.paths import Path

__all__ = ["checked", "judged"]


def judged(message: str, value: Any, old: Any = None, path: Path | None = None) -> list[FieldError]:
    """Returns what the constraints of a message find wrong with a value; `old` is the value that it replaces, or None."""
    return _judged(message, value, old, path, in_code=False)


def checked(message: str, value: Any, path: Path) -> list[FieldError]:
    """Returns what the constraints of a message that Kubernetes checks in code find wrong with a value."""
    return _judged(message, value, None, path, in_code=True)


def _judged(message: str, value: Any, old: Any, path: Path | None, *, in_code: bool) -> list[FieldError]:
    suspects = suspicion(message, in_code)
    if suspects is None or not suspects(value, old):
        return []
    found: list[FieldError] = []
    check = checker(message, in_code)
    assert check is not None  # there are both functions or none
    check(value, old, path, found.append)
    return found
