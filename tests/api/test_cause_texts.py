"""Texts of causes and suggestions: every code has one, and no two codes share a key."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CAUSE_TEXTS, CausePhrase
from dray.api.reasons.causes import CauseCode, SelectorCode
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.devices import AmountLimit, InputCode, PoolCode, PoolState, StepCode, TimeoutCode
from dray.api.reasons.nodes import NodeCode
from dray.api.reasons.suggestions import SuggestionCode
from dray.api.reasons.wording import TEXTS, Phrase

OWN = (CausePhrase, CauseCode, SelectorCode, SuggestionCode)
OTHERS = (AmountLimit, ClaimCode, InputCode, PoolCode, PoolState, StepCode, TimeoutCode, NodeCode, Phrase)


def test_every_code_has_a_text() -> None:
    assert {code for codes in OWN for code in codes} == CAUSE_TEXTS.keys()


def test_no_two_codes_are_written_alike() -> None:
    """Codes are strings, and the table of texts has one entry for each."""
    written = [str(code) for codes in (*OWN, *OTHERS) for code in codes]
    assert len(written) == len(set(written))
    assert set(written) <= {str(code) for code in TEXTS}
