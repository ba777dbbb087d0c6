"""Texts and descriptions of causes and suggestions: every code has one, and no two codes share a key."""

from __future__ import annotations

from string import Formatter

import pytest

from dray.api.reasons.cause_texts import CAUSE_TEXTS, CausePhrase
from dray.api.reasons.causes import CAUSES, SUGGESTIONS, texts_of
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.causes.taken import AllTaken
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.described import description_of
from dray.api.reasons.devices import AmountLimit, InputCode, PoolCode, PoolState, StepCode, TimeoutCode
from dray.api.reasons.nodes import NodeCode
from dray.api.reasons.requested import RequestedDevices
from dray.api.reasons.selector_faults import SelectorCode
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import TEXTS, Phrase

OWN = (CausePhrase, SelectorCode)
OTHERS = (AmountLimit, ClaimCode, InputCode, PoolCode, PoolState, StepCode, TimeoutCode, NodeCode, Phrase)
KINDS = (*CAUSES.values(), *SUGGESTIONS.values())


def test_every_code_has_a_text() -> None:
    assert {code for codes in OWN for code in codes} == CAUSE_TEXTS.keys()
    assert len(CAUSES) > 80
    assert len(SUGGESTIONS) > 40


def test_no_two_codes_are_written_alike() -> None:
    """Codes are strings, and the table of texts has one entry for each."""
    written = [str(code) for codes in (*OWN, *OTHERS) for code in codes]
    written += [key for kind in KINDS for key in texts_of(kind)]
    assert len(written) == len(set(written))
    assert set(written) <= TEXTS.keys()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_cause_says_what_it_and_its_fields_mean(kind: type[Cause] | type[Suggestion]) -> None:
    described = description_of(kind)
    assert described.summary.endswith(".")
    if issubclass(kind, Cause):
        assert list(described.fields) == list(kind.__struct_fields__)


def test_every_suggestion_belongs_to_a_cause() -> None:
    assert {helps for kind in CAUSES.values() for helps in kind.HELPS} == set(SUGGESTIONS.values())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_templates_are_for_one_line(kind: type[Cause] | type[Suggestion]) -> None:
    for text in texts_of(kind).values():
        assert [*Formatter().parse(text)]
        assert "\n" not in text


@pytest.mark.wording
def test_devices_are_taken_free_or_tainted() -> None:
    asked = RequestedDevices("c", "r", "gpu", 4)
    found = AllTaken(asked, matching=8, taken=5, tainted=2, taints=("t:NoSchedule",), taint_rules=("fan",))
    assert found.text == (
        "request r of claim c needs 4 devices, and 5 of 8 that match are taken, 1 free, "
        "2 tainted: t:NoSchedule, by DeviceTaintRule fan"
    )
