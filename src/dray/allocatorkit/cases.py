"""Recorded questions with the answers of Kubernetes v1.37, one JSON object per line in `data`.

Left out: which answers are right (`judging`).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import msgspec

from dray.allocator.scenarios import Scenario, read_scenario
from dray.api.wire import Tree

ALLOCATIONS, SELECTORS = "allocations.jsonl.gz", "selectors.jsonl.gz"

# Fields of slices and of claims' requests that show that a case needs a feature.
_IN_SLICES = {
    "deviceTaints": ("taints",),
    "partitionableDevices": ("sharedCounters", "consumesCounters"),
    "consumableCapacity": ("allowMultipleAllocations",),
    "bindingConditions": ("bindingConditions",),
}
_IN_CLAIMS = {"adminAccess": ("adminAccess",), "prioritizedList": ("firstAvailable",)}
FEATURES = (*_IN_CLAIMS, *_IN_SLICES)
"""The optional features that cases may need, by the names that they have in the data."""


class ExpectedAllocation(msgspec.Struct, frozen=True):
    """Answer of Kubernetes: `allocated`, `none`, `error`, or `gave-up` after ten seconds of search.

    `result` has an AllocationResult for each claim. `truth` is the result of a complete search if Kubernetes gave up.
    """

    outcome: str
    result: list[Tree] = []
    message: str = ""
    truth: str = ""


class ExpectedMatch(msgspec.Struct, frozen=True):
    """Answer of Kubernetes: whether the device matches, or the compile-time or run-time error, and the costs."""

    match: bool | None = None
    compileError: str = ""
    runtimeError: str = ""
    maxCost: int | None = None
    cost: int | None = None


class AllocationCase(msgspec.Struct, frozen=True):
    """Case of claims that need devices on a node. `question` is the JSON line sent to an allocator."""

    id: str
    question: bytes
    scenario: Scenario
    want: ExpectedAllocation
    needs: frozenset[str]


class SelectorCase(msgspec.Struct, frozen=True):
    """Case of an expression and a device. `question` is the JSON line sent to an allocator."""

    id: str
    question: bytes
    want: ExpectedMatch
    needs: frozenset[str] = frozenset()


def lines(name: str) -> Iterator[bytes]:
    """Yield the lines of one file of the data set."""
    yield from gzip.decompress((files("dray.allocatorkit") / "data" / name).read_bytes()).splitlines()


def cases(without: frozenset[str] = frozenset()) -> Iterator[AllocationCase | SelectorCase]:
    """Yield all cases except those that need one of the features in `without`."""
    found: list[AllocationCase | SelectorCase] = [
        *map(_allocation, lines(ALLOCATIONS)),
        *map(_selector, lines(SELECTORS)),
    ]
    return (one for one in found if not one.needs & without)


def _allocation(line: bytes) -> AllocationCase:
    tree: dict[str, Any] = msgspec.json.decode(line)
    want = msgspec.convert(tree.pop("want"), ExpectedAllocation)
    question = msgspec.json.encode({"kind": "allocation"} | tree)
    return AllocationCase(tree["id"], question, read_scenario(line, tree["id"]), want, _needs(tree))


def _selector(line: bytes) -> SelectorCase:
    tree: dict[str, Any] = msgspec.json.decode(line)
    want = msgspec.convert(tree.pop("want"), ExpectedMatch)
    return SelectorCase(tree["id"], msgspec.json.encode({"kind": "selector"} | tree), want)


def _needs(tree: dict[str, Any]) -> frozenset[str]:
    """Return the features that are enabled in a case and used by its objects."""
    in_slices, in_claims = _keys(tree["slices"]), _keys(tree["claims"])
    used = {name for name, fields in _IN_SLICES.items() if in_slices.intersection(fields)}
    used |= {name for name, fields in _IN_CLAIMS.items() if in_claims.intersection(fields)}
    used |= {"consumableCapacity"} if tree.get("shares") else set()
    return frozenset(name for name in used if tree["features"].get(name))


def _keys(tree: Any) -> set[str]:
    """Return the names of all fields at any depth."""
    if isinstance(tree, dict):
        return {*tree, *(key for value in tree.values() for key in _keys(value))}
    return {key for value in tree for key in _keys(value)} if isinstance(tree, list) else set()
