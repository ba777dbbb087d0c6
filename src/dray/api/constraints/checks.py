"""Functions that compiled constraints call after a possible violation: error messages and comparison of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dray.api.errors import FieldError, duplicate, forbidden, invalid
from dray.api.paths import Path
from dray.api.written import as_written

IMMUTABLE = "field is immutable"
Out = Callable[[FieldError], object]
# Fields that an update may not set, clear or change: condition of a violation, where `x` is the changed value, and message.
SET_ONCE = {
    "NoSet": ("not {old}", "field cannot be set once created"),
    "NoUnset": ("not checks.is_set(x)", "field cannot be cleared once set"),
    "NoModify": ("{old} and checks.is_set(x)", "field cannot be modified once set"),
}


def union(values: Sequence[Any], names: Sequence[str], path: Path | None, out: Out) -> None:
    """Report an error because not exactly one of several fields is set."""
    chosen = [name for name, value in zip(names, values, strict=True) if is_set(value)]
    options = ", ".join(f"`{name}`" for name in names)
    if not chosen:
        out(invalid(path or "", "", f"must specify one of: {options}"))
    else:
        out(invalid(path or "", f"{{{', '.join(chosen)}}}", f"must specify exactly one of: {options}"))


def is_set(value: Any) -> bool:
    """Return whether a field has a value other than None or an empty list or map."""
    return value is not None and value != () and value != {}


def same_union(values: Sequence[Any], old: Any, of: Callable[[Any], Sequence[Any]]) -> bool:
    """Return whether an update leaves the same fields of a union set; False if `old` is None.

    `values` are the new values of the fields; `of` returns those of `old`.
    """
    return old is not None and list(map(is_set, values)) == list(map(is_set, of(old)))


def unique(items: Sequence[Any], attributes: Sequence[str], path: Path, out: Out) -> None:
    """Report each element whose key equals the key of an earlier element."""
    seen: set[Any] = set()
    for index, item in enumerate(items):
        key = _key(item, attributes) if attributes else item
        if key in seen:
            out(duplicate(path / index, as_written(item)))
        seen.add(key)


def kept_items(new: Sequence[Any], old: Sequence[Any], rule: str, path: Path, out: Out) -> None:
    """Report named elements that were added (rule `NoAddItem`) or removed (rule `NoRemoveItem`)."""
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
    """Return whether two elements have the same key: the values of `attributes`, or the element if there are none."""
    return len({_key(item, attributes) for item in items} if attributes else {*items}) < len(items)


def matched(old: Sequence[Any] | None, attributes: Sequence[str]) -> Any:
    """Return the elements of the previous list: by key if the list has keys, otherwise the list itself.

    For None, the result is empty, or None without keys.
    """
    return {_key(item, attributes): item for item in old or ()} if attributes else old


def before(known: Any, item: Any, attributes: Sequence[str]) -> Any:
    """Return the previous element that `item` replaces, or None. `known` is the result of `matched`."""
    if attributes:
        return known.get(_key(item, attributes))
    return item if item in known else None


def _key(item: Any, attributes: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(item, name) or "" for name in attributes)
