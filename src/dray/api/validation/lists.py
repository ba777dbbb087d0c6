"""Rules that hold for many fields: sizes, uniqueness, unions, immutability."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from dray.api import schema
from dray.api.errors import FieldError, duplicate, forbidden, invalid, required, too_long, too_many, unsupported
from dray.api.names import Check, Complaints
from dray.api.validation.paths import Path
from dray.api.wire import Wire

Errors = Iterator[FieldError]
T = TypeVar("T")
IMMUTABLE = "field is immutable"


def each(items: Sequence[T] | None, path: Path, check: Callable[[T, Path], Iterable[FieldError]]) -> Errors:
    for index, item in enumerate(items or ()):
        yield from check(item, path / index)


def bounded(
    items: Sequence[T] | None,
    limit: int,
    path: Path,
    check: Callable[[T, Path], Iterable[FieldError]],
    key: Callable[[T], Hashable] | None = None,
) -> Errors:
    """A list of limited length, in which no two elements have the same key; one that is too long is not looked into."""
    if items and len(items) > limit:
        yield too_many(path, len(items), limit)
        return
    yield from each(items, path, check)
    if key is not None:
        yield from unique(items, path, key)


def unique(items: Sequence[T] | None, path: Path, key: Callable[[T], Hashable], whole: bool = True) -> Errors:
    """No two elements with the same key; `whole` elements are shown, else their keys."""
    seen: set[Hashable] = set()
    for index, item in enumerate(items or ()):
        value = key(item)
        if value in seen:
            yield duplicate(path / index, as_written(item) if whole else value)
        seen.add(value)


def named(value: T, path: Path, check: Callable[[T], Complaints]) -> Errors:
    """A text, or the number of a port, of a certain form."""
    for text in check(value):
        yield invalid(path, value, text)


def required_name(value: str, path: Path, check: Check, detail: str = "") -> Errors:
    """A text of a certain form that must not be missing."""
    if value:
        yield from named(value, path, check)
    else:
        yield required(path, detail)


def one_of(value: str | None, options: tuple[str, ...], path: Path | str) -> Errors:
    """One of a few words, or nothing."""
    if value is not None and value not in options:
        yield unsupported(path, value, options)


def required_one_of(value: str | None, options: tuple[str, ...], path: Path | str) -> Errors:
    """One of a few words, which must not be missing."""
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


def at_most(value: int | None, maximum: int, path: Path) -> Errors:
    if value is not None and value > maximum:
        yield invalid(path, value, f"must be less than or equal to {maximum}")


def one_member(members: Mapping[str, object], path: Path) -> Errors:
    """Exactly one of several fields must be set."""
    chosen = [name for name, value in members.items() if value is not None and value != ()]
    if len(chosen) == 1:
        return
    options = ", ".join(f"`{name}`" for name in members)
    if not chosen:
        yield invalid(path, "", f"must specify one of: {options}")
    else:
        yield invalid(path, f"{{{', '.join(chosen)}}}", f"must specify exactly one of: {options}")


def unchanged(new: object, old: object, path: Path, shown: object = None) -> Errors:
    if new != old:
        yield invalid(path, shown, IMMUTABLE)


def kept_items(new: Sequence[Any] | None, old: Sequence[Any] | None, path: Path) -> Errors:
    """Named elements may change but neither come nor go."""
    before, now = {item.name for item in old or ()}, {item.name for item in new or ()}
    for index, item in enumerate(new or ()):
        if item.name not in before:
            yield forbidden(path / index, "item may not be added")
    for item in old or ():
        if item.name not in now:
            yield forbidden(path, "item may not be removed")


_INITIALS = {"api": "API", "cel": "CEL", "ip": "IP", "uid": "UID", "url": "URL", "x": "X"}


def as_go(value: Any) -> Any:
    """A struct as Kubernetes' internal types are printed: all fields, by their Go names, in the order of their numbers."""
    if not isinstance(value, Wire):
        return [as_go(item) for item in value] if isinstance(value, tuple) else value
    module = type(value).__module__.rpartition(".")[2]
    fields = schema.message(_message_of(module, type(value).__name__)).fields
    tree = {}
    for name in sorted(fields, key=lambda name: fields[name].number):
        first = re.match("[a-z]+", name).group()  # type: ignore[union-attr]  # every name begins so
        go_name = (_INITIALS.get(first) or first.capitalize()) + name[len(first) :]
        found = as_go(getattr(value, name))
        tree[go_name] = None if found in ([], {}) else found
    return msgspec.Raw(msgspec.json.encode(tree))


def as_written(value: Any) -> Any:
    """A struct as a tree in the order of its protobuf numbers, which is how Kubernetes writes it."""
    if not isinstance(value, Wire):
        return value
    module = type(value).__module__.rpartition(".")[2]
    tree = _ordered(_message_of(module, type(value).__name__), msgspec.to_builtins(value))
    return msgspec.Raw(msgspec.json.encode(tree))


def _ordered(message: str, tree: Any) -> Any:
    if not isinstance(tree, dict) or not message:
        return [_ordered(message, item) for item in tree] if isinstance(tree, (list, tuple)) else tree
    fields = schema.message(message).fields
    names = sorted(tree, key=lambda name: fields[name].number if name in fields else 0)
    return {name: _ordered(fields[name].reference if name in fields else "", tree[name]) for name in names}


@cache
def _message_of(module: str, name: str) -> str:
    """The message of a generated class: the first version that has one of that name."""
    groups = [f"io.k8s.api.{module}.{version}." for version in ("v1", "v1beta1", "v1alpha3")]
    return next((group + name for group in (*groups, schema.EXTENSIONS) if group + name in schema.table()), "")
