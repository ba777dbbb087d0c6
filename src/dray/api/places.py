"""Paths in trees such as `spec.devices[].taints`, used for defaults and feature gates.

`[]` stands for all elements of a list, `{}` for all values of a map. The last name can have alternatives, as in
`a.b|c`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from dray.api.wire import Tree


class PlacePath(NamedTuple):
    """A parsed path: the intermediate names, each with the type of its value, and the last names."""

    way: tuple[tuple[str, str], ...]  # (name, "[]", "{}" or "" for one object)
    last: tuple[str, ...]


@cache
def steps(path: str) -> PlacePath:
    """Parse a path.

    >>> steps("spec.devices[].taints")
    PlacePath(way=(('spec', ''), ('devices', '[]')), last=('taints',))
    """
    *names, last = path.split(".")
    way = ((name[:-2], name[-2:]) if name.endswith(("[]", "{}")) else (name, "") for name in names)
    return PlacePath(tuple(way), tuple(last.split("|")))


def present(tree: Tree, path: str) -> list[tuple[Tree, str]]:
    """Return the existing fields at a path, as pairs of containing object and field name.

    >>> present({"spec": {"devices": [{"name": "a", "taints": []}, {"name": "b"}]}}, "spec.devices[].taints")
    [({'name': 'a', 'taints': []}, 'taints')]
    """
    way, last = steps(path)
    found = [tree]
    for name, behind in way:
        inner = [value for holder in found if (value := holder.get(name))]
        if behind == "[]":
            inner = [item for items in inner for item in items]
        elif behind:
            inner = [item for items in inner for item in items.values()]
        if not inner:
            return []
        found = inner
    return [(holder, name) for holder in found for name in last if name in holder]


class _PlaceTree(NamedTuple):
    """Several paths combined into a tree: the last names at this level, and subtrees behind other names."""

    last: tuple[str, ...]
    behind: tuple[tuple[str, str, _PlaceTree], ...]  # (name, "[]", "{}" or "", subtree)


def finder(paths: Iterable[str]) -> Callable[[Tree], bool]:
    """Compile paths into a function that returns whether a tree has a field at any of the paths.

    Every write checks dozens of paths, most of which do not exist, so common prefixes are walked only once.

    >>> is_there = finder(["spec.devices[].taints", "spec.devices[].capacity{}.value", "spec.taints"])
    >>> is_there({"spec": {"devices": [{}, {"taints": []}]}}), is_there({"spec": {"devices": [{}], "a": 1}})
    (True, False)
    """
    lines = ["def is_there(v0):", *_lines(_merged([steps(path) for path in paths]), 0), " return False"]
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)  # generated above, only from the paths of kinds
    found: Callable[[Tree], bool] = names["is_there"]
    return found


def _merged(paths: Sequence[PlacePath]) -> _PlaceTree:
    last = dict.fromkeys(name for way, names in paths if not way for name in names)
    longer: dict[tuple[str, str], list[PlacePath]] = {}
    for way, names in paths:
        if way:
            longer.setdefault(way[0], []).append(PlacePath(way[1:], names))
    return _PlaceTree(tuple(last), tuple((*first, _merged(rest)) for first, rest in longer.items()))


def _lines(places: _PlaceTree, depth: int) -> Iterator[str]:
    """Yield the source code that examines the object `v0`, `v1` and so on, for one level of the tree."""
    indent, holder, inner = " " * (2 * depth + 1), f"v{depth}", f"v{depth + 1}"
    if places.last:
        yield f"{indent}if {' or '.join(f'{name!r} in {holder}' for name in places.last)}: return True"
    for name, behind, rest in places.behind:
        yield f"{indent}{inner} = {holder}.get({name!r})"
        if behind:
            yield f"{indent}for {inner} in {inner}{'' if behind == '[]' else '.values()'} if {inner} else ():"
        else:
            yield f"{indent}if {inner}:"
        yield from (" " + line for line in _lines(rest, depth + 1))


def values(value: Any, behind: str) -> Any:
    """Return the objects in a field's value: the elements of a list, the values of a map, or the single object.

    `behind` is `[]` for a list, `{}` for a map, otherwise empty. Empty for None.
    """
    if value is None:
        return ()
    return value if behind == "[]" else value.values() if behind else (value,)
