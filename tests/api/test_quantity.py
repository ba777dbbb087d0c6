"""Quantities read, compare, add and print as Kubernetes does it."""

import contextlib
import copy
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.quantity import FORMAT_WRONG, MAX_INT64, NUMERIC_WRONG, SUFFIX_WRONG, Quantity, QuantityError


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0"),
        ("0Ki", "0"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1024Mi", "1Gi"),
        ("1024Ki", "1Mi"),
        ("1500Ki", "1500Ki"),
        ("5000000k", "5G"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("100e4", "1e6"),
        ("1e2", "100"),
        ("12.345", "12.345"),
        ("1.23", "1230m"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("100", "100"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("16Ei", "9223372036854775807"),
        ("-16Ei", "-9223372036854775807"),
        ("1Ei", "1Ei"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("+5", "+5"),
        (".5", "500m"),
        ("5.", "5."),
        ("-", "0"),
    ],
)
def test_prints_in_the_form_of_kubernetes(text: str, printed: str) -> None:
    assert str(Quantity.parse(text)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_WRONG),
        ("bad", FORMAT_WRONG),
        (" 1", FORMAT_WRONG),
        ("1 ", FORMAT_WRONG),
        ("1.1.M", FORMAT_WRONG),
        ("1i", SUFFIX_WRONG),
        ("1mi", SUFFIX_WRONG),
        ("1e", SUFFIX_WRONG),
        ("1e99999999999999999999", SUFFIX_WRONG),
        ("Pi", NUMERIC_WRONG),
        ("9" * 5000, NUMERIC_WRONG),
    ],
)
def test_refuses_with_the_words_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as caught:
        Quantity.parse(text)
    assert str(caught.value) == message


def test_reads_json_numbers_and_null() -> None:
    assert str(Quantity.from_json(0.5)) == "500m"
    assert str(Quantity.from_json(4)) == "4"
    assert Quantity.from_json(None) == Quantity.parse("0")
    assert str(Quantity.from_json(" 1Gi ")) == "1Gi"
    with pytest.raises(QuantityError):
        Quantity.parse(True)


def test_addition_keeps_the_format_of_the_first_unless_it_is_zero() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1G")) == "2073741824"
    assert str(Quantity.parse("0") + Quantity.parse("1Gi")) == "1Gi"
    assert str(Quantity.parse("2Gi") - Quantity.parse("1Gi")) == "1Gi"
    assert str(-Quantity.parse("1Gi")) == "-1Gi"


def test_integer_reading_depends_on_how_the_number_was_written() -> None:
    assert Quantity.parse("40Gi").as_int() == 40 * 2**30
    assert Quantity.parse("2k").as_int() == 2000
    assert Quantity.parse("1000m").as_int() is None
    assert Quantity.parse("0.5Ki").as_int() is None
    assert Quantity.parse("100E").as_int() is None
    assert (Quantity.parse(str(MAX_INT64)) + Quantity.parse("1")).as_int() is None


def test_scaled_values_round_away_from_zero_and_cap() -> None:
    assert Quantity.parse("1.0001").milli() == 1001
    assert Quantity.parse("-1.0001").milli() == -1001
    assert Quantity.parse("1500m").value() == 2
    assert Quantity.parse("1e30").value() == MAX_INT64
    assert Quantity.parse("0e30").value() == 0


def test_huge_exponents_cost_nothing() -> None:
    huge = Quantity.parse("1e2000000000")
    assert huge > Quantity.parse("1Ei")
    assert Quantity.parse("-1e2000000000") < Quantity.parse("1n")
    assert huge.approximate() == float("inf")
    assert str(huge) == "100e1999999998"
    with pytest.raises(QuantityError):
        huge + Quantity.parse("1")


def test_is_a_value() -> None:
    one = Quantity.parse("1Ki")
    assert {one: "x"}[Quantity.parse("1024")] == "x"
    assert copy.deepcopy(one) is one
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != "1Ki"
    with pytest.raises(AttributeError):
        one.unscaled = 2  # type: ignore[misc]  # the point of the test


suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "e3", "E-2", "e0"])
numbers = st.from_regex(r"[+-]?[0-9]{1,20}(\.[0-9]{1,12})?", fullmatch=True)
quantities = st.builds(lambda number, suffix: Quantity.parse(number + suffix), numbers, suffixes)


def exact(quantity: Quantity) -> Fraction:
    return Fraction(quantity.unscaled) * Fraction(10) ** quantity.scale


@given(quantities)
def test_printing_and_reading_keeps_the_value(quantity: Quantity) -> None:
    if abs(quantity.scaled(18)) < 100:  # beyond that Kubernetes prints no suffix
        assert Quantity.parse(str(quantity)) == quantity


@given(quantities, quantities)
def test_arithmetic_and_order_are_exact(a: Quantity, b: Quantity) -> None:
    assert exact(a + b) == exact(a) + exact(b)
    assert exact(a - b) == exact(a) - exact(b)
    assert (a < b, a == b, a > b) == (exact(a) < exact(b), exact(a) == exact(b), exact(a) > exact(b))
    if a == b:
        assert hash(a) == hash(b)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(QuantityError):
        str(Quantity.parse(text))
