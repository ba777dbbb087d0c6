"""Every code has words, and nothing but the table decides them."""

from __future__ import annotations

from enum import StrEnum

import pytest

from dray.api.reasons import claims, devices, nodes, wording
from dray.api.reasons.claims import ClaimCode, ClaimProblem
from dray.api.reasons.devices import InputCode, InputProblem, PoolCode, PoolProblem, TimedOut, TimeoutCode
from dray.api.reasons.nodes import NodeCode, NodeReason, SchedulingRule, Unschedulable
from dray.api.reasons.wording import Phrase


def codes() -> list[StrEnum]:
    """What the modules of reasons define, but for the names of the rules."""
    modules = (devices, claims, nodes, wording)
    defined = [
        one for module in modules for one in vars(module).values() if getattr(one, "__module__", "") == module.__name__
    ]
    enums = [one for one in defined if isinstance(one, type) and issubclass(one, StrEnum) and one is not SchedulingRule]
    return [code for enum in enums for code in enum]


def test_no_two_codes_are_spelled_alike() -> None:
    """A table finds a code by its spelling."""
    assert len({str(code) for code in codes()}) == len(codes())


def test_every_reason_belongs_to_a_rule_in_the_order_of_the_rules() -> None:
    rules = [NodeReason(code).rule for code in NodeCode]
    assert rules == sorted(rules, key=[*SchedulingRule].index)
    assert {*rules} == {*SchedulingRule}


@pytest.mark.parametrize("code", list(ClaimCode))
def test_every_problem_of_a_claim_can_be_told(code: ClaimCode) -> None:
    assert "{" not in wording.claim_problem(ClaimProblem(code, pod="p", claim="c"))


def test_the_condition_of_a_pod_counts_nodes_by_what_is_said_of_them() -> None:
    reasons = {
        NodeReason(NodeCode.INSUFFICIENT, "cpu", wanted=5, found=1): 0b001,
        NodeReason(NodeCode.INSUFFICIENT, "cpu", wanted=5, found=2): 0b010,
        NodeReason(NodeCode.CLAIM_ELSEWHERE, "a"): 0b100,
        NodeReason(NodeCode.CLAIM_ELSEWHERE, "b"): 0b100,
    }
    said = wording.say(Phrase.SOME_NODES, count=2, why=wording.say(NodeCode.INSUFFICIENT, subject="cpu"))
    elsewhere = wording.say(Phrase.SOME_NODES, count=1, why=wording.say(NodeCode.CLAIM_ELSEWHERE))
    listed = ", ".join(sorted([said, elsewhere]))
    assert wording.unschedulable(Unschedulable(3, reasons)) == wording.say(Phrase.ALL_NODES, nodes=3, why=listed)


@pytest.mark.parametrize("code", codes())
def test_every_code_has_words(code: StrEnum) -> None:
    assert wording.TEXTS[code]


@pytest.mark.parametrize("code", list(InputCode))
def test_every_input_problem_can_be_told(code: InputCode) -> None:
    text = wording.input_problem(InputProblem(code, "ns/c", "r", "s", "d/p/x", "d/p", 7, 8, "detail"))
    assert "{" not in text


@pytest.mark.wording
def test_pools_and_timeouts_can_be_told() -> None:
    assert wording.pool_problem(PoolProblem(PoolCode.SLICES_MISSING, 1, (3,))) == (
        "incomplete: 1 of 3 slices are published"
    )
    assert wording.pool_problem(PoolProblem(PoolCode.SLICE_COUNTS_DIFFER, 2, (2, 3))).endswith("slices: 2, 3")
    assert "request 1 of 2" in wording.timed_out(TimedOut(TimeoutCode.SEARCH, "ns/c", "r", 1, 2, 3))


def test_texts_can_be_replaced_by_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    for code in wording.TEXTS:
        monkeypatch.setitem(wording.TEXTS, code, str(code))
    assert wording.input_problem(InputProblem(InputCode.INVALID_POOLS)) == "invalid-pools"
