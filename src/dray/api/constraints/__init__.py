"""Constraints of fields: data in the schema table, compiled once for each message.

A field's column `c` lists what Kubernetes' schema says of it: `required`, `format=k8s-short-name`, `maxItems=32` and so on.
`judged` compiles the constraints of a message and of everything below it into one Python function, and returns the errors
of an object in the order in which Kubernetes tells them: a union before the fields of its message, fields by their numbers,
a field before what it holds. What an update leaves as it was is not judged again.

What a constraint means, its condition and its error, is a row of one table for built-in and custom resources (`table`).
A message's column `k` lists what Kubernetes checks in code, in its order; `checked` takes these steps. What neither can
express is a function of `dray.api.validation`, which a step or the file of a kind names.
"""

from __future__ import annotations

from typing import Any

from dray.api.constraints.compiler import Checker, checker, suspicion
from dray.api.constraints.steps import function, steps_of
from dray.api.errors import MOST_ERRORS, FieldError
from dray.api.paths import Path

__all__ = ["checked", "function", "judged"]


class _Enough(Exception):
    """More errors were found than anybody is told."""


class _FoundErrors(list[FieldError]):
    """Takes errors until there are more than anybody is told; rules that ask for something get the `context`."""

    __slots__ = ("context",)

    def __init__(self, context: Any = None) -> None:
        super().__init__()
        self.context = context

    def __call__(self, error: FieldError) -> None:
        self.append(error)
        if len(self) > MOST_ERRORS:
            raise _Enough


def judged(message: str, value: Any, old: Any = None, path: Path | None = None) -> list[FieldError]:
    """Returns what the constraints of a message find wrong with a value; `old` is the value that it replaces, or None."""
    suspects = suspicion(message)
    if suspects is None or not suspects(value, old):
        return []
    check = checker(message)
    assert check is not None  # there are both functions or none
    return _told(check, value, old, path)


def checked(
    message: str,
    value: Any,
    path: Path | None = None,
    old: Any = None,
    context: Any = None,
    of_status: bool = False,
) -> list[FieldError]:
    """Returns what the steps of a message find wrong with a value, at most one more than anybody is told.

    Of a kind, the steps of its status are taken apart from the others.
    """
    steps = steps_of(message, of_status)
    return _told(steps, value, old, path, context) if steps is not None else []


def _told(check: Checker, value: Any, old: Any, path: Path | None, context: Any = None) -> list[FieldError]:
    found = _FoundErrors(context)
    try:  # noqa: SIM105  # `suppress` takes longer than the judgement of a small message
        check(value, old, path, found)
    except _Enough:
        pass
    return found
