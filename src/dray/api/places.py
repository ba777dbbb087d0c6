"""Places in trees, named by paths such as `spec.devices[].taints`: what defaults and feature gates are told with.

`[]` stands for every element of a list, `{}` for every value of a map; the last name can be several, as in `a.b|c`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from dray.api.wire import Tree


class PlacePath(NamedTuple):
    """A path, taken apart: the names on the way, each with what is behind it, and the last names."""

    way: tuple[tuple[str, str], ...]  # with "[]" or "{}", or "" for one object
    last: tuple[str, ...]


@cache
def steps(path: str) -> PlacePath:
    """Take a path apart.

    >>> steps("spec.devices[].taints")
    PlacePath(way=(('spec', ''), ('devices', '[]')), last=('taints',))
    """
    *names, last = path.split(".")
    way = ((name[:-2], name[-2:]) if name.endswith(("[]", "{}")) else (name, "") for name in names)
    return PlacePath(tuple(way), tuple(last.split("|")))


def present(tree: Tree, path: str) -> list[tuple[Tree, str]]:
    """Returns the fields at a path that are there: the objects that have them, and their names.

    >>> present({"spec": {"devices": [{"name": "a", "taints": []}, {"name": "b"}]}}, "spec.devices[].taints")
    [({'name': 'a', 'taints': []}, 'taints')]
    """
    way, last = steps(path)
    found = [tree]
    for name, behind in way:  # without calls: every write looks at dozens of places, most of which are not there
        inner = [value for holder in found if (value := holder.get(name))]
        if behind == "[]":
            inner = [item for items in inner for item in items]
        elif behind:
            inner = [item for items in inner for item in items.values()]
        if not inner:
            return []
        found = inner
    return [(holder, name) for holder in found for name in last if name in holder]


def values(value: Any, behind: str) -> Any:
    """Returns what is behind a name: the elements of a list, the values of a map, or the one object."""
    if value is None:
        return ()
    return value if behind == "[]" else value.values() if behind else (value,)
