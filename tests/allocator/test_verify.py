"""The checker finds every way in which an allocation can be wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from dray.allocator import Allocated, allocate, verify
from tests.allocator.building import ANY, DRIVER, GPU, ROOT, alternatives, claim, device, node, request, slice_, spec

NODE = node("n")
SLICES = [
    slice_(
        "s",
        [
            device("d0", **{ROOT: "p"}),
            device("d1", **{ROOT: "p"}),
            device("d2", **{ROOT: "q"}),
            device("bad", [{"key": "k", "effect": "NoSchedule"}], **{ROOT: "p"}),
            device("busy", **{ROOT: "p"}),
        ],
    ),
    slice_("t", [device("nic")], pool="t", driver="nic.example.org"),
]
TAKEN = [(DRIVER, "p", "busy")]
CONFIG = [{"opaque": {"driver": DRIVER, "parameters": {"x": 1}}}]
CLAIMS = [
    claim("a", request("r", 2, cls="gpu"), match=(ROOT,), config=CONFIG),
    claim("b", alternatives("r", s=spec(1, cls="gpu"), t=spec(2, cls="gpu"))),
]
Results = list[dict[str, Any]]


def sound() -> Results:
    outcome = allocate(NODE, CLAIMS, [ANY, GPU], SLICES, TAKEN)
    assert isinstance(outcome, Allocated)
    return copy.deepcopy(list(outcome.results))


def complaints(results: Results) -> list[str]:
    return verify(results, NODE, CLAIMS, [ANY, GPU], SLICES, TAKEN)


def test_a_sound_allocation_raises_no_complaint() -> None:
    assert complaints(sound()) == []


def entry(results: Results, claim_: int = 0, place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = results[claim_]["devices"]["results"][place]
    return found


def swap(device_: str, claim_: int = 0, **other: str) -> Callable[[Results], None]:
    return lambda results: entry(results, claim_, 0).update(device=device_, **other)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda results: results.pop(), "1 results for 2 claims"),
        (swap("nowhere"), "is not offered to the node"),
        (swap("busy"), "is taken"),
        (swap("bad"), "has a taint that is not tolerated"),
        (swap("nic", pool="t", driver="nic.example.org"), "does not match the selectors"),
        (swap("d1"), "a device is listed twice"),
        (swap("d2"), f"devices differ in {ROOT}"),
        (swap("d0", 1), "is given to an earlier claim"),
        (lambda results: results[0]["devices"]["results"].pop(), "1 devices instead of 2"),
        (lambda results: entry(results).update(request="other"), "which is no request"),
        (lambda results: entry(results, 1).update(request="r/t"), "1 devices instead of 2"),
        (lambda results: entry(results, 1).update(request="r/x"), "which is no request"),
        (lambda results: results[1]["devices"].pop("results"), "no alternative was chosen"),
        (lambda results: entry(results).update(adminAccess=True), "has the wrong admin access"),
        (lambda results: entry(results).update(tolerations=[{"operator": "Exists"}]), "does not carry the tolerations"),
        (lambda results: results[0]["devices"].pop("config"), "a configuration of the claim is missing"),
        (lambda results: results[0].pop("nodeSelector"), "is allocated to all nodes"),
    ],
)
def test_what_is_wrong_is_told(spoil: Callable[[Results], Any], complaint: str) -> None:
    results = sound()
    spoil(results)
    assert any(complaint in each for each in complaints(results)), complaints(results)


def test_a_selector_that_excludes_the_node_is_told() -> None:
    results = sound()
    results[0]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] = ["other"]
    assert complaints(results) == ["claim a: the node selector excludes the node"]


def test_all_means_all() -> None:
    every = [claim("a", request("r", None))]
    slices = [slice_("s", [device("d0"), device("d1")])]
    outcome = allocate(NODE, every, [ANY], slices)
    assert isinstance(outcome, Allocated)
    results = copy.deepcopy(list(outcome.results))
    assert verify(results, NODE, every, [ANY], slices) == []
    results[0]["devices"]["results"].pop()
    assert verify(results, NODE, every, [ANY], slices) == ["claim a: request r: 1 devices instead of 2"]
