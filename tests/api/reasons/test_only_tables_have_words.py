"""What is said of devices, causes and suggestions has no word that is not in the tables of texts.

Here every text is its code in capitals, and so is every subject: a small letter is a word that stands in a program.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from string import Formatter
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from dray.api.reasons import wording
from dray.api.reasons.causes import CAUSES, SUGGESTIONS, base
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.conflicts import ShortAlternative
from dray.api.reasons.causes.node_rules import NoNodes
from dray.api.reasons.causes.taken import MovedPod
from dray.api.reasons.causes.undecided import UnknownCause
from dray.api.reasons.devices import (
    AlternativeReasons,
    ConstraintReasons,
    DeviceStep,
    InputCode,
    InputProblem,
    LackingAmount,
    PoolCode,
    PoolProblem,
    PoolReasons,
    PoolState,
    Reasons,
    RequestConflict,
    RequestReasons,
    StepCode,
    TimedOut,
    TimeoutCode,
)
from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.api.reasons.requested import ClaimAmount, HeldAmount, RequestedDevices
from dray.api.reasons.selector_faults import Place, SelectorCode, SelectorFault
from dray.api.reasons.suggestions import SuggestedChange, Suggestion


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


HERE, THERE, OTHER = Place("attributes", "D", "A"), Place("attributes", "E", "A"), Place("capacity", "D", "A")
SAMPLES: dict[Any, tuple[Any, ...]] = {
    str: ("S",),
    int: (0, 1, 4),
    bool: (False, True),
    tuple[str, ...]: (("A",), tuple("ABCD")),
    RequestedDevices: (RequestedDevices("C", "R", "CLS", 1), RequestedDevices("C", "R", "CLS", 2, resource="E")),
    DeviceStep: (DeviceStep(StepCode.FREE, 1), DeviceStep(StepCode.PUBLISHED, 1)),
    InputProblem: (InputProblem(InputCode.CLASS_NOT_FOUND, "C", "R", "S"),),
    PoolProblem: (PoolProblem(PoolCode.DUPLICATE_DEVICE, device="D"),),
    TimedOut: (TimedOut(TimeoutCode.SEARCH, "C", "R"),),
    SelectorFault: (
        SelectorFault(SelectorCode.NAME_MISSING, HERE, THERE, 4),
        SelectorFault(SelectorCode.NAME_MISSING, OTHER, devices=4, known=tuple("ABCDEFGHIJ")),
        SelectorFault(SelectorCode.VALUE_MISSING, HERE, part="A", values=tuple((value, 2) for value in "VWXYZ")),
        SelectorFault(SelectorCode.VALUE_MISSING, HERE, part="A"),
        SelectorFault(SelectorCode.PARTS_APART, parts=(("A", 1), ("B", 2))),
    ),
    tuple[LackingAmount, ...]: (tuple(LackingAmount("P/D", "C", "1", "0", counter_set) for counter_set in ("", "S")),),
    tuple[ClaimAmount, ...]: (
        tuple(ClaimAmount("NS/C", HeldAmount("P", "C", "1", counter_set)) for counter_set in ("", "S")),
    ),
    tuple[tuple[NodeReason, int], ...]: (
        ((NodeReason(NodeCode.INSUFFICIENT, "CPU"), 2), (NodeReason(NodeCode.UNSCHEDULABLE), 1)),
    ),
    tuple[ShortAlternative, ...]: ((ShortAlternative("A", UnknownCause()), ShortAlternative("B", NoNodes())),),
    base.AnyCause: (UnknownCause(),),
    tuple[SuggestedChange, ...]: ((),),
    tuple[MovedPod, ...]: ((MovedPod("A", "N"), MovedPod("B", "N")),),
}


def samples(kind: type[Cause] | type[Suggestion]) -> Iterator[Any]:
    """Structs of a kind with one and several names, with and without each thing that can be missing."""
    choices = {}
    for name, hint in get_type_hints(kind).items():
        if name in kind.__struct_fields__:
            of = [one for one in get_args(hint) if one is not NoneType] if type(None) in get_args(hint) else [hint]
            choices[name] = [*SAMPLES[of[0]], *([] if of == [hint] else [None])]
    optional = {one.name for one in msgspec.structs.fields(kind) if not one.required}
    for values in product(*choices.values()):
        yield kind(**dict(zip(choices, values, strict=True)))
    yield kind(**{name: values[0] for name, values in choices.items() if name not in optional})


@pytest.mark.parametrize("code", CAUSES)
def test_causes(code: str) -> None:
    assert [word for found in samples(CAUSES[code]) for word in words(found.text)] == []


@pytest.mark.parametrize("code", SUGGESTIONS)
def test_suggestions(code: str) -> None:
    assert [word for found in samples(SUGGESTIONS[code]) for word in words(found.text)] == []
