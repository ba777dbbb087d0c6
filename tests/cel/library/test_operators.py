"""Operators: arithmetic, comparison across numeric types, membership."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        "-7 / 2 == -3 && -7 % 2 == -1 && 7 % -2 == 1",
        "1 < 2.5 && 2.5 > 1u && 1u < 2 && dyn(1) == 1.0 && dyn(1u) == 1",
        '1 in [1, 2] && !(3 in [1, 2]) && "a" in {"a": 1} && dyn(1.0) in [1, 2]',
        '"a" < "b" && b"a" < b"b" && false < true && duration("1s") < duration("2s")',
        "dyn(0.0) / 0.0 != dyn(0.0)",
        "1.0 / 0.0 > 1e308",
        "dyn([1,2]) == [1.0, 2.0]",
        'dyn({"a": 1}) == {"a": 1.0}',
        'null == null && dyn(null) != 1 && quantity("1") != null',
        "-9223372036854775808 == -9223372036854775807 - 1",
        "--1 == 1 && !!true",
        "(true ? 1 : 2) == 1",
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("1u / 0u == 1u", "division by zero"),
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("-(-9223372036854775807 - 1) == 0", "integer overflow"),
        ("[1][3] == 1", "index out of bounds: 3"),
        ('{"a": 1}["b"] == 1', "no such key: b"),
        ('dyn(1) + dyn("a") == 2', "no such overload"),
        ("!dyn(1)", "no such overload"),
        ("dyn(1) ? true : false", "no such overload"),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
