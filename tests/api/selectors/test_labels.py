"""Label selectors: text and structure select the same."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.selectors import EVERYTHING, NOTHING, SelectorError, label_selector, parse_labels
from dray.api.types import meta

PRODUCTION = {"env": "production", "tier": "web", "size": "5"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("env=production", True),
        ("env==production,tier!=db", True),
        ("env!=production", False),
        ("missing!=x", True),
        ("env in (staging, production)", True),
        ("env notin (staging,production)", False),
        ("missing notin (a)", True),
        ("env", True),
        ("!env", False),
        ("!missing", True),
        ("size>4,size<6", True),
        ("size>5", False),
        ("env>1", False),
        ("env in (,production)", True),
        ("in in (x)", False),
        ("missing=", False),
    ],
)
def test_text_selects(text: str, matches: bool) -> None:
    assert parse_labels(text).matches(PRODUCTION) is matches


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in ()", "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
        ("a>x", "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("-a=b", 'key: Invalid value: "-a": name part must consist of'),
        ("a=-b", 'values[0][a]: Invalid value: "-b": a valid label must be'),
        ("!", "unable to parse requirement: found '', expected: identifier"),
    ],
)
def test_bad_text_is_explained(text: str, complaint: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_labels(text)
    assert complaint in str(caught.value)


@given(st.text(alphabet="ab=!(),<> in", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(SelectorError):
        parse_labels(text).matches({"a": "b"})


def test_structure_selects() -> None:
    selector = label_selector(
        meta.LabelSelector(
            matchLabels={"env": "production"},
            matchExpressions=(
                meta.LabelSelectorRequirement("tier", "In", ("web", "db")),
                meta.LabelSelectorRequirement("missing", "DoesNotExist"),
            ),
        )
    )
    assert selector.matches(PRODUCTION)
    assert not selector.matches({**PRODUCTION, "missing": ""})
    assert not selector.matches({"env": "production"})


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert label_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert label_selector(meta.LabelSelector()) == EVERYTHING
    assert EVERYTHING.everything
    assert EVERYTHING.matches(PRODUCTION)
