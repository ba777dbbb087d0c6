"""Rules for many fields: sizes, uniqueness, names, enumerations and immutability."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar

from dray.api.errors import FieldError, duplicate, invalid, required, too_long, too_many, unsupported
from dray.api.names import Complaints, NameCheck
from dray.api.paths import Path
from dray.api.written import as_written

Errors = Iterator[FieldError]
T = TypeVar("T")
IMMUTABLE = "field is immutable"


def each(items: Sequence[T] | None, path: Path, check: Callable[[T, Path], Iterable[FieldError]]) -> Errors:
    """Yield the errors that `check` finds in each element; None counts as an empty list."""
    for index, item in enumerate(items or ()):
        yield from check(item, path / index)


def bounded(
    items: Sequence[T] | None,
    limit: int,
    path: Path,
    check: Callable[[T, Path], Iterable[FieldError]],
    key: Callable[[T], Hashable] | None = None,
) -> Errors:
    """Yield an error if a list is too long, otherwise the errors of its elements and of duplicate keys.

    `limit` is the maximum number of elements. Without `key`, duplicates are not looked for.
    """
    if items and len(items) > limit:
        yield too_many(path, len(items), limit)
        return
    yield from each(items, path, check)
    if key is not None:
        yield from unique(items, path, key)


def within(items: Sequence[T] | None, limit: int) -> Sequence[T]:
    """Return the elements of a list, or none if it has more than `limit`; a schema constraint reports the length."""
    return items if items and len(items) <= limit else ()


def unique(items: Sequence[T] | None, path: Path, key: Callable[[T], Hashable], whole: bool = True) -> Errors:
    """Yield an error for each element whose key occurred before; it shows the element or, without `whole`, the key."""
    seen: set[Hashable] = set()
    for index, item in enumerate(items or ()):
        value = key(item)
        if value in seen:
            yield duplicate(path / index, as_written(item) if whole else value)
        seen.add(value)


def named(value: T, path: Path, check: Callable[[T], Complaints]) -> Errors:
    """Yield an error per message of `check` about a name or port number."""
    for text in check(value):
        yield invalid(path, value, text)


def required_name(value: str, path: Path, check: NameCheck, detail: str = "") -> Errors:
    """Yield an error if a name is empty, otherwise one per message of `check`.

    `detail` is the message about an empty name.
    """
    if value:
        yield from named(value, path, check)
    else:
        yield required(path, detail)


def one_of(value: str | None, options: tuple[str, ...], path: Path | str) -> Errors:
    """Yield an error if a value is neither None nor one of the options. An empty text must be an option too."""
    if value is not None and value not in options:
        yield unsupported(path, value, options)


def required_one_of(value: str | None, options: tuple[str, ...], path: Path | str) -> Errors:
    """Yield an error if a value is None, empty or not one of the options."""
    if not value:
        yield required(path)
    elif value not in options:
        yield unsupported(path, value, options)


def at_most_bytes(value: str, limit: int, path: Path) -> Errors:
    if len(value.encode()) > limit:
        yield too_long(path, limit)


def at_least(value: int | None, minimum: int, path: Path) -> Errors:
    if value is not None and value < minimum:
        yield invalid(path, value, f"must be greater than or equal to {minimum}")


def unchanged(new: object, old: object, path: Path, shown: object = None) -> Errors:
    """Yield an error if an immutable field has changed. `shown` is the value printed in the error."""
    if new != old:
        yield invalid(path, shown, IMMUTABLE)


def checked(message: str, value: object, path: Path | None) -> list[FieldError]:
    """Return the errors that the steps of a message find in a value; empty if the message has no steps.

    `message` is a schema name.
    """
    return _by_steps()(message, value, path)


@cache
def _by_steps() -> Callable[[str, object, Path | None], list[FieldError]]:
    """Return `constraints.checked`, imported with the first object: importing takes long, and clients do not validate."""
    from dray.api.constraints import checked as by_steps

    return by_steps
