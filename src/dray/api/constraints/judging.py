"""Validation of a value by compiled constraints or steps, up to the number of errors that are reported."""

from __future__ import annotations

from typing import Any

from dray.api.constraints.compiler import Checker, checker, suspicion
from dray.api.constraints.steps import steps_of
from dray.api.errors import MOST_ERRORS, FieldError
from dray.api.paths import Path


class _Enough(Exception):
    """More errors were found than are reported."""


class _FoundErrors(list[FieldError]):
    """List that collects errors and raises _Enough above MOST_ERRORS; `context` is for rules that need it."""

    __slots__ = ("context",)

    def __init__(self, context: Any = None) -> None:
        super().__init__()
        self.context = context

    def __call__(self, error: FieldError) -> None:
        self.append(error)
        if len(self) > MOST_ERRORS:
            raise _Enough


def judged(message: str, value: Any, old: Any = None, path: Path | None = None) -> list[FieldError]:
    """Check a value against the constraints of a message. Returns the errors; `old` is the replaced value or None.

    Returns at most MOST_ERRORS + 1 errors, and none if the message has no constraints.
    """
    suspects = suspicion(message)
    if suspects is None or not suspects(value, old):
        return []
    check = checker(message)
    assert check is not None  # a message has both functions or neither
    return performed(check, value, path, old)


def checked(
    message: str,
    value: Any,
    path: Path | None = None,
    old: Any = None,
    context: Any = None,
    of_status: bool = False,
) -> list[FieldError]:
    """Perform the steps of a message for a value. Returns the field errors, at most MOST_ERRORS + 1.

    For a kind, the steps of its status are separate: `of_status` selects them. `context` is passed to the functions
    of steps; `old` is the replaced value or None.
    """
    steps = steps_of(message, of_status)
    return performed(steps, value, path, old, context) if steps is not None else []


def performed(
    check: Checker, value: Any, path: Path | None = None, old: Any = None, context: Any = None
) -> list[FieldError]:
    """Call compiled constraints or steps for a value. Returns the field errors, at most MOST_ERRORS + 1."""
    found = _FoundErrors(context)
    try:  # noqa: SIM105  # `suppress` takes longer than validating a small message
        check(value, old, path, found)
    except _Enough:
        pass
    return found
