r"""JSONPath as used in CustomResourceDefinitions: for printer columns, selectable fields and scale replicas.

Supports fields (`.a`, `['a']`, `\.` in names), elements (`[0]`, `[-1]`, `[0:2]`, `[*]`), comparisons
(`[?(@.type=="Ready")]`) and `..` for all depths. A caller that evaluates many paths on one object passes them a
common `PathBudget`, so that the work stays bounded. Formatting several results is not part of this module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from dray.api.remembered import remembered

_NAME = re.compile(r"(?:[^\\.\[\]'\"]|\\.)+")
_INDEX = re.compile(r"\s*(-?\d+)?\s*(?:(:)\s*(-?\d+)?\s*(?::\s*(\d+)\s*)?)?")
_FILTER = re.compile(r"\?\(\s*(@[^=!<>]*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?))?\s*\)")
_SIMPLE = re.compile(r"(\.[a-zA-Z_][a-zA-Z0-9_-]*)+")
_MOST_STEPS = 64

JsonPathStep = Callable[[Any, "PathBudget"], Iterator[Any]]


class PathError(ValueError):
    """The path has invalid syntax; the message gives the reason."""


class TooFar(Exception):
    """The paths have visited more values than their budget allows."""


class PathBudget:
    """Number of values that paths may still visit."""

    def __init__(self, most: int) -> None:
        self._left = most

    def spend(self, values: int = 1) -> None:
        """Subtract visited values from the budget. Raises TooFar when it is exhausted."""
        self._left -= values
        if self._left < 0:
            raise TooFar


def is_simple(path: str) -> bool:
    """Return whether a path consists of field names only, as required for paths that are written to."""
    return _SIMPLE.fullmatch(path) is not None


def simple(path: str) -> tuple[str, ...]:
    """Return the field names of a path for which `is_simple` is true."""
    return tuple(path.removeprefix(".").split("."))


@remembered(4096)
def parse(path: str) -> tuple[JsonPathStep, ...]:
    """Parse a path into its steps; `{…}` around the path and `$` at its start are optional.

    Raises PathError if the syntax is invalid or there are too many steps.
    """
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$")
    if text and text[0] not in ".[":
        raise PathError(f"unexpected {text[0]!r} at the beginning: a path begins with . or [")
    steps = list(_steps(text))
    if len(steps) > _MOST_STEPS:
        raise PathError(f"{len(steps)} steps: a path may have at most {_MOST_STEPS}")
    return tuple(steps)


def is_readable(path: str) -> bool:
    """Return whether a path has valid syntax; printer columns may contain invalid paths."""
    try:
        parse(path)
    except PathError:
        return False
    return True


def find(path: str, value: Any, reach: PathBudget | None = None) -> Iterator[Any]:
    """Return an iterator over all values that a path selects in `value`.

    Raises PathError for an invalid path; the iteration raises TooFar if `reach` is given and exhausted.
    """
    found: Iterator[Any] = iter((value,))
    reach = reach or PathBudget(sys.maxsize)
    for step in parse(path):
        found = _each(step, found, reach)
    return found


def first(path: str, value: Any, reach: PathBudget | None = None) -> Any:
    """Return the first value that a path selects in `value`, or None if it selects none.

    Raises PathError for an invalid path, and TooFar if `reach` is exhausted.
    """
    return next(find(path, value, reach), None)


def text(value: Any) -> str:
    """Return a value as JSON text, for a table cell."""
    return msgspec.json.encode(value).decode()


def _each(step: JsonPathStep, values: Iterator[Any], reach: PathBudget) -> Iterator[Any]:
    for value in values:
        reach.spend()
        yield from step(value, reach)


def _steps(text: str) -> Iterator[JsonPathStep]:
    position = 0
    while position < len(text):
        if text.startswith("..", position):
            yield _everywhere
            position += 1 if text[position + 2 : position + 3] not in ("[", "") else 2
        elif text[position] == ".":
            match = _NAME.match(text, position + 1)
            if match is None:
                if text[position + 1 : position + 2] == "[" or position + 1 == len(text):
                    position += 1
                    continue
                raise PathError(f"a name is missing at position {position + 1}")
            yield _wildcard if match[0] == "*" else _member(re.sub(r"\\(.)", r"\1", match[0]))
            position = match.end()
        elif text[position] == "[":
            end = _closing(text, position)
            yield _bracket(text[position + 1 : end])
            position = end + 1
        else:
            raise PathError(f"unexpected {text[position]!r} at position {position}")


def _closing(text: str, position: int) -> int:
    """Return the index of the `]` that closes the `[` at a position. Raises PathError if it is missing."""
    depth, quoted = 0, ""
    for index in range(position, len(text)):
        char = text[index]
        if quoted:
            quoted = "" if char == quoted else quoted
        elif char in "'\"":
            quoted = char
        elif char in "[]":
            depth += 1 if char == "[" else -1
            if depth == 0:
                return index
    raise PathError("unterminated array: ] is missing")


def _bracket(text: str) -> JsonPathStep:
    if text.strip() == "*":
        return _wildcard
    if text[:1] in "'\"" and text[-1:] == text[:1] and len(text) > 1:
        return _member(text[1:-1])
    if match := _FILTER.fullmatch(text.strip()):
        return _filter(*match.groups())
    if text.strip() and (match := _INDEX.fullmatch(text)):
        return _elements(*match.groups())
    raise PathError(f"invalid array index {text!r}")


def _member(name: str) -> JsonPathStep:
    def step(value: Any, reach: PathBudget) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _wildcard(value: Any, reach: PathBudget) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _everywhere(value: Any, reach: PathBudget) -> Iterator[Any]:
    reach.spend()
    yield value
    for child in _wildcard(value, reach):
        yield from _everywhere(child, reach)


def _elements(start: str | None, colon: str | None, stop: str | None, stride: str | None) -> JsonPathStep:
    low = int(start) if start is not None else None
    high = int(stop) if stop is not None else None
    by = int(stride or 1)
    if by < 1:
        raise PathError("the step of a slice must be positive")

    def step(value: Any, reach: PathBudget) -> Iterator[Any]:
        if not isinstance(value, list):
            return
        if colon:
            yield from (value[index] for index in range(*slice(low, high, by).indices(len(value))))
        elif low is not None and -len(value) <= low < len(value):
            yield value[low]

    return step


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _filter(path: str, operator: str | None, literal: str | None) -> JsonPathStep:
    parse(path[1:])
    wanted = _literal(literal) if literal is not None else None

    def holds(item: Any, reach: PathBudget) -> bool:
        reach.spend()
        found = first(path[1:], item, reach)
        if operator is None:
            return found is not None
        if isinstance(found, bool) is not isinstance(wanted, bool):
            return operator == "!="
        try:
            return found is not None and _COMPARE[operator](found, wanted)
        except TypeError:
            return False

    def step(value: Any, reach: PathBudget) -> Iterator[Any]:
        if isinstance(value, list):
            yield from (item for item in value if holds(item, reach))

    return step


def _literal(text: str) -> Any:
    if text[:1] == "'" and text[-1:] == "'" and len(text) > 1:
        return text[1:-1]
    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError as error:
        raise PathError(f"{text} is neither a text in quotes nor a number") from error
