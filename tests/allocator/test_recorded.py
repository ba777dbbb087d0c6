"""Recorded answers of Kubernetes v1.37: the same outcome, the same devices, the same configuration, the same errors."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from dray.allocator import Allocated, Failed, Index, Unallocatable, steps_in, verify
from dray.allocator.scenarios import Scenario, read_scenario
from dray.allocatorkit.cases import ALLOCATIONS, lines
from dray.api.reasons.wording import input_problem, line, tree

TIERS = ("base", "taints", "hard", "same-root", "hall", "pairs", "staircase", "alternatives", "two-constraints")
CONSUMING = ("partition", "capacity", "mixed", "binding")


@cache
def recorded() -> list[tuple[Scenario, dict[str, Any]]]:
    return [(read_scenario(line, "recorded"), json.loads(line)["want"]) for line in lines(ALLOCATIONS)]


def tier(name: str) -> list[tuple[Scenario, dict[str, Any]]]:
    found = [(scenario, want) for scenario, want in recorded() if scenario.id.startswith(name)]
    assert found
    return found


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        slim = {key: without_empty(inner) for key, inner in value.items()}
        kept = {key: inner for key, inner in slim.items() if inner not in (None, [], {}, "")}
        return kept | {"shareID": "SHARE"} if "shareID" in kept else kept
    return [without_empty(inner) for inner in value] if isinstance(value, list) else value


def test_every_recording_belongs_to_a_tier() -> None:
    assert sum(len(tier(name)) for name in TIERS + CONSUMING) == len(recorded()) == 419 + 440


@pytest.mark.wording
@pytest.mark.parametrize("name", TIERS + CONSUMING)
def test_answers_are_those_of_the_reference(name: str) -> None:
    for scenario, want in tier(name):
        outcome = scenario.ask()
        match want["outcome"]:
            case "allocated":
                assert isinstance(outcome, Allocated), scenario.id
                assert without_empty(list(outcome.results)) == without_empty(want["result"]), scenario.id
            case "none":
                assert isinstance(outcome, Unallocatable), scenario.id
            case "error":
                assert isinstance(outcome, Failed), scenario.id
                assert input_problem(outcome.problem) == want["message"], scenario.id


def test_what_the_reference_gave_up_on_is_decided() -> None:
    for scenario, want in recorded():
        if want["outcome"] != "gave-up":
            continue
        outcome = scenario.ask(steps_in(20))
        expected = {"allocated": Allocated, "none": Unallocatable}.get(
            want.get("truth", ""), (Allocated, Unallocatable)
        )
        assert isinstance(outcome, expected), scenario.id


def test_every_allocation_passes_the_checker() -> None:
    for scenario, _ in recorded():
        outcome = scenario.ask()
        if isinstance(outcome, Allocated):
            wrong = verify(
                outcome.results,
                scenario.node,
                scenario.claims,
                scenario.classes,
                scenario.slices,
                scenario.allocated,
                scenario.features,
                scenario.held,
            )
            assert wrong == [], scenario.id


def privileged(scenario: Scenario) -> bool:
    """Whether admin access is asked for: then a device may serve two claims, and no conflict is looked for."""
    return any(
        request.exactly is not None and request.exactly.adminAccess
        for claim in scenario.claims
        for request in claim.spec.devices.requests or ()
    )


def test_every_refusal_can_be_explained_in_one_line_and_in_many() -> None:
    for scenario, want in recorded():
        outcome = scenario.ask()
        if isinstance(outcome, Unallocatable):
            reasons = outcome.explain()
            assert "\n" not in line(reasons), scenario.id
            assert len(tree(reasons).splitlines()) > 1, scenario.id
            if want["outcome"] == "none" and reasons.conflict is None and not privileged(scenario):
                assert any(not request.enough for request in reasons.requests), scenario.id


def test_an_index_gives_the_same_answers() -> None:
    for scenario, _ in tier("base")[:100] + tier("taints")[:40] + tier("hard")[:20]:
        index = Index(scenario.features)
        index.upsert_node(scenario.node)
        index.take(scenario.allocated, scenario.held)
        for slice_ in scenario.slices:
            index.upsert_slice(slice_)
        for class_ in scenario.classes:
            index.upsert_class(class_)
        outcome = scenario.ask()
        name = scenario.node.metadata.name
        assert type(index.allocate(name, scenario.claims)) is type(outcome), scenario.id
        if not isinstance(outcome, Unallocatable):
            assert index.allocate(name, scenario.claims) == outcome, scenario.id
        assert (name in index.fits(scenario.claims)) == isinstance(outcome, Allocated), scenario.id
