"""Judging of another allocator's answers: same as recorded, different but valid, or wrong. No I/O.

An allocation is verified against the slices, not only compared: Kubernetes takes the first devices that fit, but an
allocator may have reasons to take others. Left out: receiving answers (`running`) and counting (`report`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from dray.allocator import verify
from dray.allocatorkit.cases import AllocationCase, SelectorCase
from dray.api.wire import Tree

OUTCOMES = ("allocated", "none", "error", "gave-up")


class AnswerStanding(StrEnum):
    """Result of comparing an answer with the recorded one."""

    SAME = "same"
    DIFFERENT = "different"  # valid, but not the answer of Kubernetes
    WRONG = "wrong"
    SKIPPED = "skipped"


class AnswerVerdict(msgspec.Struct, frozen=True):
    """Comparison of one answer, with the reason."""

    id: str
    standing: AnswerStanding
    why: str = ""


def judge(case: AllocationCase | SelectorCase, answer: Tree) -> AnswerVerdict:
    """Compare an answer with the recorded one. Returns the verdict."""
    if "skip" in answer:
        return AnswerVerdict(case.id, AnswerStanding.SKIPPED, str(answer["skip"]))
    standing, why = _selector(case, answer) if isinstance(case, SelectorCase) else _allocation(case, answer)
    return AnswerVerdict(case.id, standing, why)


def _selector(case: SelectorCase, answer: Tree) -> tuple[AnswerStanding, str]:
    """Compare the answer to a selector case. Returns the standing and the reason."""
    want = case.want
    error = want.compileError or want.runtimeError
    given = next((str(answer[key]) for key in ("error", "compileError", "runtimeError") if answer.get(key)), "")
    if not given and not isinstance(answer.get("match"), bool):
        return AnswerStanding.WRONG, "expected match: true or false, or error"
    if bool(given) != bool(error):
        return (
            AnswerStanding.WRONG,
            f"Kubernetes says: {error}" if error else f"an error instead of match {want.match}: {given}",
        )
    if given or answer["match"] == want.match:
        return AnswerStanding.SAME, ""
    return AnswerStanding.WRONG, f"match is {_word(want.match)} in Kubernetes"


def _word(value: object) -> str:
    return str(value).lower()


def _allocation(case: AllocationCase, answer: Tree) -> tuple[AnswerStanding, str]:
    """Compare the answer to an allocation case. Returns the standing and the reason."""
    outcome = answer.get("outcome")
    if outcome not in OUTCOMES:
        return AnswerStanding.WRONG, f"expected an outcome of {', '.join(OUTCOMES)}"
    if outcome == "allocated":
        return _allocated(case, answer.get("result"))
    want = case.want
    known = want.truth or want.outcome
    if outcome == known or (known == "gave-up" and outcome == "none"):
        return AnswerStanding.SAME, ""
    if outcome == "gave-up":
        return (
            (AnswerStanding.SAME, "")
            if want.outcome == "gave-up"
            else (AnswerStanding.WRONG, f"gave up: it is {known}")
        )
    if known == "allocated":
        return AnswerStanding.WRONG, "the claims can be allocated"
    # Kubernetes ends with an error at a device that has no answer; an allocator may go on, and find nothing.
    return AnswerStanding.DIFFERENT, f"Kubernetes answers {known}" + (f": {want.message}" if want.message else "")


def _allocated(case: AllocationCase, result: Any) -> tuple[AnswerStanding, str]:
    """Verify the allocation of an answer, and compare it with the recorded one."""
    scenario, want = case.scenario, case.want
    try:
        wrong = verify(
            result,
            scenario.node,
            scenario.claims,
            scenario.classes,
            scenario.slices,
            scenario.allocated,
            scenario.features,
            scenario.held,
        )
    except (msgspec.ValidationError, TypeError, ValueError, LookupError, AttributeError) as error:
        return AnswerStanding.WRONG, f"result: expected an AllocationResult for each claim: {error}"
    if wrong:
        return AnswerStanding.WRONG, "; ".join(wrong)
    if want.outcome == "allocated":
        same = _plain(result) == _plain(want.result)
        return (
            (AnswerStanding.SAME, "")
            if same
            else (AnswerStanding.DIFFERENT, "valid, with other devices or configuration")
        )
    if want.outcome == "error":
        return AnswerStanding.DIFFERENT, f"valid; Kubernetes answers an error: {want.message}"
    return AnswerStanding.SAME, ""  # Kubernetes gave up, and there is an allocation


def _plain(tree: Any) -> Any:
    """Return the tree without empty fields and with blank share ids, which are random."""
    if isinstance(tree, dict):
        slim = {key: _plain(value) for key, value in tree.items()}
        kept = {key: value for key, value in slim.items() if value not in (None, [], {}, "")}
        return kept | {"shareID": ""} if "shareID" in kept else kept
    return [_plain(value) for value in tree] if isinstance(tree, list) else tree
