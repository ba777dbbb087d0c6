"""Node profiles: files with capacity, labels and devices of common machines, and the objects created from them.

`dgx-h100*4,cpu*10` means four nodes of one profile and ten of another. A name ending in `.yaml` is a user's file. In
a file,
`repeat` multiplies an entry and replaces its words in braces. Attribute names are those of the real drivers. Left
out:
running the nodes (`dray.sim.nodes`, `dray.sim.cluster`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from dray.api.quantity import ZERO, Quantity
from dray.api.wire import Tree
from dray.sim import forms, hardware
from dray.sim.forms import FormError

SUFFIX = ".yaml"
_WITH_COUNTERS = 64  # maximum devices per slice if they draw on counters


class ProfileError(ValueError):
    """A profile that is unknown or invalid. The message names the profile and the reason."""


class ProfileClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A DeviceClass with one selector."""

    name: str
    selector: str


class FollowedDriver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A real driver whose class and attribute names the profile uses, its version, and what is unknown or left out."""

    driver: str
    version: str
    unknown: str = ""


class ProfilePool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Devices of one driver, and the counters they draw on.

    A pool with a node selector spans the selected nodes, needs a name, and exists once regardless of the number of
    nodes.
    """

    driver: str
    devices: list[Tree]
    sharedCounters: list[Tree] = []
    name: str = ""
    nodeSelector: Tree = {}


class NodeProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of node: capacity, labels, device classes and pools."""

    capacity: dict[str, str]
    labels: dict[str, str] = {}
    classes: list[ProfileClass] = []
    pools: list[ProfilePool] = []
    follows: list[FollowedDriver] = []


def known() -> list[str]:
    """Return the names of the built-in profiles, sorted."""
    return sorted(file.name.removesuffix(SUFFIX) for file in _folder() if file.name.endswith(SUFFIX))


def read(name: str) -> NodeProfile:
    """Read a profile by name, or from a user's file.

    A name with the suffix of profiles is a path. Raises ProfileError if there is no such profile, or its file cannot
    be read or is invalid.
    """
    found = next((file for file in _folder() if file.name == name + SUFFIX), None)
    if name.endswith(SUFFIX):
        found = Path(name)
    if found is None:
        raise ProfileError(
            f"there is no profile {name}; there are {', '.join(known())}, and files that end in {SUFFIX}"
        )
    try:
        return forms.read(found.read_text(), NodeProfile)
    except OSError as error:
        raise ProfileError(f"profile {name}: {error.strerror}") from error
    except (UnicodeDecodeError, FormError) as error:
        raise ProfileError(f"profile {name}: {error}") from error


def parse(text: str) -> list[tuple[str, int]]:
    """Parse a list such as `dgx-h100*4,cpu` into names and counts. Raises ProfileError.

    A name without a count has the count 1. ProfileError is raised if a name is missing or a count is no number from
    1.
    """
    found = []
    for word in text.split(","):
        name, star, count = word.strip().partition("*")
        if not name or (star and not (count.isdecimal() and int(count))):
            raise ProfileError(f"{word!r}: expected NAME or NAME*COUNT, as in dgx-h100*4,cpu*10")
        found.append((name, int(count or 1)))
    return found


def objects_of(text: str, now: str, first: int = 0) -> list[Tree]:
    """Return classes, nodes and slices for a list of profiles. Node addresses are numbered from `first`.

    Nodes are named PROFILE-NUMBER. `now` is a timestamp. Raises ProfileError if a profile is unknown or invalid.
    """
    classes: dict[str, Tree] = {}
    trees: list[Tree] = []
    spanning: dict[str, Tree] = {}
    numbers = itertools.count(first)
    counted: dict[str, Iterator[int]] = {}
    for name, count in parse(text):
        profile = read(name)
        short = Path(name).name.removesuffix(SUFFIX)
        for own in itertools.islice(counted.setdefault(short, itertools.count()), count):
            trees += node_trees(profile, f"{short}-{own}", next(numbers), now)
        classes |= {one.name: hardware.class_tree(one.name, one.selector) for one in profile.classes}
        spanning |= {tree["metadata"]["name"]: tree for pool in profile.pools for tree in _spanning_slices(pool)}
    return [*classes.values(), *trees, *spanning.values()]


def node_trees(profile: NodeProfile, name: str, number: int, now: str) -> Iterator[Tree]:
    """Yield a node of a profile and its slices. Raises ProfileError if the profile is invalid."""
    for resource, much in profile.capacity.items():
        _check_quantity(resource, much)
    yield hardware.node_tree(number, now, name, profile.capacity, profile.labels)
    for pool in profile.pools:
        if not pool.nodeSelector:
            yield from _slices(pool, name)


def _check_quantity(resource: str, much: str) -> None:
    try:
        is_right = Quantity.parse(much) >= ZERO
    except ValueError:
        is_right = False
    if not is_right:
        raise ProfileError(f"capacity: {resource}: expected a quantity from 0, as 16 or 64Gi, got {much!r}")


def _spanning_slices(pool: ProfilePool) -> Iterator[Tree]:
    """Yield the slices of a pool that spans nodes; nothing for others. Raises ProfileError if it has no name."""
    if not pool.nodeSelector:
        return
    if not pool.name:
        raise ProfileError(f"pool of {pool.driver}: a pool with a node selector needs a name")
    for tree in _slices(pool, pool.name):
        spec = {key: value for key, value in tree["spec"].items() if key != "nodeName"}
        yield {**tree, "spec": {**spec, "nodeSelector": pool.nodeSelector}}


def _slices(pool: ProfilePool, node: str) -> Iterator[Tree]:
    """Yield the slices of a pool: one for its counters, and as many as needed for its devices."""
    counters = _repeated(pool.sharedCounters)
    most = _WITH_COUNTERS if counters else hardware.DEVICES_A_SLICE
    contents: list[Tree] = [{"sharedCounters": counters}] if counters else []
    devices = _repeated(pool.devices)
    contents += [{"devices": devices[first : first + most]} for first in range(0, len(devices), most)]
    for number, content in enumerate(contents):
        yield hardware.slice_tree(f"{node}-{pool.driver}-{number}", pool.driver, node, len(contents), content)


def _repeated(entries: Iterable[Tree]) -> list[Tree]:
    """Return the entries, each multiplied as its `repeat` says.

    An entry without `repeat` is returned once. Several words of `repeat` give all combinations. Raises ProfileError.
    """
    made = []
    for entry in entries:
        values = {word: _values(word, found) for word, found in entry.get("repeat", {}).items()}
        rest = {key: value for key, value in entry.items() if key != "repeat"}
        if values:
            rows = itertools.product(*values.values())
            made += [_filled(rest, dict(zip(values, row, strict=True))) for row in rows]
        else:
            made.append(rest)
    return made


def _values(word: str, found: Any) -> Iterable[Any]:
    """Return the values of a word of `repeat`. Raises ProfileError if they are invalid."""
    if isinstance(found, int) and found > 0:
        return range(found)
    if isinstance(found, list) and found:
        return found
    raise ProfileError(f"repeat: {word}: expected a number from 1, or a list of values, got {found!r}")


def _filled(value: Any, words: dict[str, Any]) -> Any:
    """Return a copy with the words in braces replaced, also in mapping keys. Raises ProfileError for unknown words."""
    if isinstance(value, str):
        try:
            return value.format(**words)
        except (KeyError, IndexError, ValueError) as error:
            raise ProfileError(f"{value!r}: expected words of `repeat` in braces: {error}") from error
    if isinstance(value, dict):
        return {_filled(key, words): _number(key, _filled(one, words)) for key, one in value.items()}
    return [_filled(one, words) for one in value] if isinstance(value, list) else value


def _number(key: str, value: Any) -> Any:
    """Convert the value of an `int` attribute to a number after words were replaced; other values are unchanged."""
    return int(value) if key == "int" and isinstance(value, str) and value.isdecimal() else value


def _folder() -> Iterable[Any]:
    return resources.files(__name__).iterdir()
