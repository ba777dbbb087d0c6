"""Semantic versions read, order and print as Kubernetes does it."""

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.semver import Semver, SemverError

ASCENDING = [
    "0.9.9",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.1.0",
    "2.0.0",
    "10.0.0",
]


def test_orders_by_precedence() -> None:
    for low, high in itertools.combinations(map(Semver.parse, ASCENDING), 2):
        assert low < high
        assert high > low
        assert low.compare(high) == -1
        assert high.compare(low) == 1


def test_build_metadata_plays_no_part() -> None:
    assert Semver.parse("1.0.0+a") == Semver.parse("1.0.0+b")
    assert hash(Semver.parse("1.0.0+a")) == hash(Semver.parse("1.0.0"))
    assert str(Semver.parse("2.1.0-rc.1+build.7")) == "2.1.0-rc.1+build.7"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1..3", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+ä", 'Invalid character(s) found in build meta data "ä"'),
        ("1.2.3.4", 'Invalid character(s) found in patch number "3.4"'),
        (
            "99999999999999999999.0.0",
            'strconv.ParseUint: parsing "99999999999999999999": value out of range',
        ),
    ],
)
def test_refuses_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(SemverError) as caught:
        Semver.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "printed"),
    [("v1", "1.0.0"), ("1.2", "1.2.0"), ("v01.002.0003", "1.2.3"), ("00.0.0", "0.0.0"), ("1.2.3-rc", "1.2.3-rc")],
)
def test_normalizing_accepts_what_people_write(text: str, printed: str) -> None:
    assert str(Semver.parse(text, normalize=True)) == printed


def test_normalizing_refuses_a_short_version_with_metadata() -> None:
    with pytest.raises(SemverError, match="short version cannot contain"):
        Semver.parse("1.2-rc", normalize=True)


@given(st.from_regex(r"[0-9]{1,3}\.[0-9]{1,2}\.[0-9]{1,2}(-[0-9a-z.-]{1,6})?(\+[0-9a-z.-]{1,6})?", fullmatch=True))
def test_reading_agrees_with_the_specification_and_prints_back(text: str) -> None:
    try:
        version = Semver.parse(text)
    except SemverError:
        assert not Semver.conforms(text)
    else:
        assert Semver.conforms(text)
        assert str(version) == text


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for normalize in (False, True):
        with contextlib.suppress(SemverError):
            str(Semver.parse(text, normalize=normalize))
