"""Query strings and the options that they are."""

from __future__ import annotations

import pytest

from dray.api.errors import BadRequest, Invalid
from dray.apiserver.wire.queries import options_of, parse_query


def test_the_first_of_repeated_parameters_counts() -> None:
    assert parse_query(b"a=1&a=2&b=%20x") == {"a": "1", "b": " x"}


def test_what_a_query_says_becomes_options() -> None:
    query = parse_query(b"labelSelector=a%3Db&limit=5&allowWatchBookmarks&timeoutSeconds=7&dryRun=All&unknown=1")
    options = options_of("list", query)
    assert (options.label_selector, options.limit, options.timeout_seconds) == ("a=b", 5, 7)
    assert options.allow_bookmarks
    assert options.dry_run


def test_without_a_word_about_it_misspelled_fields_are_warned_about() -> None:
    assert options_of("create", {}).field_validation == "Warn"
    assert options_of("create", {"limit": "1"}).field_validation == "Warn"
    assert options_of("create", {"fieldValidation": "Strict"}).field_validation == "Strict"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("limit=-1", "limit: expected a number that is not negative, got -1"),
        ("timeoutSeconds=99999999999999999999", "value out of range"),
        ("allowWatchBookmarks=maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        ("gracePeriodSeconds=1.5", 'strconv.ParseInt: parsing "1.5": invalid syntax'),
    ],
)
def test_values_that_cannot_be_read_are_refused(query: str, text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        options_of("list", parse_query(query))
    assert text in caught.value.message


def test_unknown_modes_are_refused_as_invalid_options() -> None:
    with pytest.raises(Invalid) as caught:
        options_of("create", {"fieldValidation": "Maybe", "dryRun": "Some"})
    assert caught.value.message.startswith('CreateOptions.meta.k8s.io "" is invalid: [')
    assert [cause["field"] for cause in caught.value.details["causes"]] == ["fieldValidation", "dryRun"]


def test_only_an_apply_can_be_forced() -> None:
    with pytest.raises(Invalid, match="may not be specified for non-apply patch"):
        options_of("patch", {"force": "true"}, "application/merge-patch+json")
    assert options_of("patch", {"force": "true"}, "application/apply-patch+yaml").force


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(BadRequest):
        parse_query(b"a=%ff%fe")
