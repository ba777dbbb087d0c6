"""What compiled constraints call once something may be wrong: the words, and the comparison of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dray.api.errors import FieldError, duplicate, forbidden, invalid
from dray.api.paths import Path
from dray.api.written import as_written

IMMUTABLE = "field is immutable"
Out = Callable[[FieldError], object]
# Fields that an update may not set, clear or change: the condition, where `x` is a value other than before, and the words.
SET_ONCE = {
    "NoSet": ("not {old}", "field cannot be set once created"),
    "NoUnset": ("not checks.is_set(x)", "field cannot be cleared once set"),
    "NoModify": ("{old} and checks.is_set(x)", "field cannot be modified once set"),
}


def union(values: Sequence[Any], names: Sequence[str], path: Path | None, out: Out) -> None:
    """Tell that not exactly one of several fields is set."""
    chosen = [name for name, value in zip(names, values, strict=True) if is_set(value)]
    options = ", ".join(f"`{name}`" for name in names)
    if not chosen:
        out(invalid(path or "", "", f"must specify one of: {options}"))
    else:
        out(invalid(path or "", f"{{{', '.join(chosen)}}}", f"must specify exactly one of: {options}"))


def is_set(value: Any) -> bool:
    return value is not None and value != () and value != {}


def same_union(values: Sequence[Any], old: Any, of: Callable[[Any], Sequence[Any]]) -> bool:
    """Whether an update leaves the choice between the fields of a union as it was."""
    return old is not None and list(map(is_set, values)) == list(map(is_set, of(old)))


def unique(items: Sequence[Any], attributes: Sequence[str], path: Path, out: Out) -> None:
    """No two elements with the same key."""
    seen: set[Any] = set()
    for index, item in enumerate(items):
        key = _key(item, attributes) if attributes else item
        if key in seen:
            out(duplicate(path / index, as_written(item)))
        seen.add(key)


def kept_items(new: Sequence[Any], old: Sequence[Any], rule: str, path: Path, out: Out) -> None:
    """Named elements may change, but none may come (`NoAddItem`) or go (`NoRemoveItem`)."""
    before, now = {item.name for item in old}, {item.name for item in new}
    if rule == "NoAddItem":
        for index, item in enumerate(new):
            if item.name not in before:
                out(forbidden(path / index, "item may not be added"))
    elif not before <= now:
        for item in old:
            if item.name not in now:
                out(forbidden(path, "item may not be removed"))


def repeats(items: Sequence[Any], attributes: Sequence[str]) -> bool:
    """Whether two elements have the same key."""
    return len({_key(item, attributes) for item in items} if attributes else {*items}) < len(items)


def matched(old: Sequence[Any] | None, attributes: Sequence[str]) -> Any:
    """The elements of a list before an update, by their keys if they have any."""
    return {_key(item, attributes): item for item in old or ()} if attributes else old


def before(known: Any, item: Any, attributes: Sequence[str]) -> Any:
    """The element that `item` takes the place of, or None."""
    if attributes:
        return known.get(_key(item, attributes))
    return item if item in known else None


def _key(item: Any, attributes: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(item, name) or "" for name in attributes)
