"""What is said of devices, causes and suggestions has no word that is not in the tables of texts.

Here every text is its code in capitals, and so is every subject: a small letter is a word that stands in a program.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from string import Formatter

import msgspec
import pytest

from dray.api.reasons import cause_wording, wording
from dray.api.reasons.causes import Cause, CauseCode, HeldAmount, Place, RequestedDevices, SelectorCode, SelectorFault
from dray.api.reasons.devices import (
    AlternativeReasons,
    ConstraintReasons,
    DeviceStep,
    LackingAmount,
    PoolReasons,
    PoolState,
    Reasons,
    RequestConflict,
    RequestReasons,
    StepCode,
)
from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.api.reasons.suggestions import Suggestion, SuggestionCode


@pytest.fixture(autouse=True)
def _capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    for code, text in wording.TEXTS.items():
        fields = [f"{{{field}}}" for _, field, _, _ in Formatter().parse(text) if field]
        monkeypatch.setitem(wording.TEXTS, code, " ".join([str(code).upper(), *fields]))


def words(text: str) -> list[str]:
    """The words of a text that come neither from the tables nor from subjects."""
    assert text
    return [word for word in text.split() if word != word.upper()]


def way(name: str, needed: int, found: int, every: bool = False) -> AlternativeReasons:
    return AlternativeReasons(
        name, needed, every, (DeviceStep(StepCode.PUBLISHED, 9), DeviceStep(StepCode.FREE, found))
    )


SHORT = RequestReasons(
    "C", "R", (way("R/A", 1, 0), way("R/B", 2, 0), way("R/C", 0, 0, every=True), way("R/D", 2, 0, True))
)
ENOUGH = RequestReasons("C", "S", (way("S", 1, 1),))
POOLS = (PoolReasons("P", PoolState.INCOMPLETE), PoolReasons("Q", PoolState.USABLE, gate="G"))
CONSTRAINTS = tuple(
    ConstraintReasons("C", "A", distinct, ("R", "S"), 2, "V", best)
    for distinct, best in [(True, 0), (False, 0), (False, 1)]
)
CONFLICTS = (
    RequestConflict((("C", "R"), ("C", "S")), 2, 1),
    RequestConflict((("C", "R"), ("C", "S")), 2, 2),
    RequestConflict((("C", "S"),), 1, 1),
)


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_reasons(conflict: RequestConflict) -> None:
    found = Reasons("N", (SHORT, ENOUGH), CONSTRAINTS, conflict, POOLS)
    assert words(wording.tree(found)) == words(wording.line(found)) == []
    for constraints in (CONSTRAINTS, ()):
        assert words(wording.line(Reasons("N", (ENOUGH,), constraints, conflict, POOLS))) == []


AMOUNTS = tuple(LackingAmount("P/D", "C", "1", "0", counter_set) for counter_set in ("", "S"))
HERE, THERE, OTHER = Place("attributes", "D", "A"), Place("attributes", "E", "A"), Place("capacity", "D", "A")
FAULTS = (
    SelectorFault(SelectorCode.NAME_MISSING, HERE, THERE, 4),
    SelectorFault(SelectorCode.NAME_MISSING, OTHER, devices=4, known=tuple("ABCDEFGHIJ")),
    SelectorFault(SelectorCode.VALUE_MISSING, HERE, part="A", values=tuple((value, 2) for value in "VWXYZ")),
    SelectorFault(SelectorCode.VALUE_MISSING, HERE, part="A"),
    SelectorFault(SelectorCode.PARTS_APART, parts=(("A", 1), ("B", 2))),
)


def causes(code: CauseCode) -> Iterator[Cause]:
    """Causes with one and several names, with and without each thing that can be missing."""
    held = tuple(("NS/C", HeldAmount("P", "C", "1", counter_set)) for counter_set in ("", "S"))
    refused = ((NodeReason(NodeCode.INSUFFICIENT, "CPU"), 2), (NodeReason(NodeCode.UNSCHEDULABLE), 1))
    asked = (None, RequestedDevices("C", "R", "CLS", 1), RequestedDevices("C", "R", "CLS", 2, resource="E"))
    for names, ask, every, fault in product([("A",), tuple("ABCD")], asked, (False, True), FAULTS):
        found = Cause(
            code, "S", "M", "C", "R", "G", "N", "D", "MSG", names, "W", 1, 4, "2", "U", every, asked=ask,
            step=DeviceStep(StepCode.FREE, 1), lacking=AMOUNTS, held=held, selector=fault, refused=refused,
            alternatives=(Cause(CauseCode.UNKNOWN),), behind=Cause(CauseCode.UNKNOWN),
        )  # fmt: skip
        yield found
    yield msgspec.structs.replace(found, names=(), step=None, used="", refused=(), distinct=True, found=0, message="")


@pytest.mark.parametrize("code", CauseCode)
def test_causes(code: CauseCode) -> None:
    assert [word for found in causes(code) for word in words(cause_wording.cause(found))] == []


@pytest.mark.parametrize("code", SuggestionCode)
def test_suggestions(code: SuggestionCode) -> None:
    for number in (1, 2):
        assert words(cause_wording.suggestion(Suggestion(code, "S", "O", "W", ("A", "B"), "N", number))) == []
