"""Constants that cannot be what they are used as are found when compiling."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask, complaint


@pytest.mark.parametrize(
    ("expression", "column", "message"),
    [
        ('[1, "a"] == [1]', 5, "expected type 'int' but found 'string'"),
        ('{"a": 1, "b": "x"} == {}', 15, "expected type 'int' but found 'string'"),
        ('duration("x") == duration("1s")', 10, "invalid duration argument"),
        ('timestamp("x") == timestamp(0)', 11, "invalid timestamp argument"),
        ('"a".matches("[")', 13, "invalid matches argument"),
        (
            '"%d".format(["a"]) == ""',
            14,
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ('"%s %s".format(["a"]) == ""', 15, "index 1 out of range"),
        ('"%y".format(["a"]) == ""', 12, 'could not parse formatting clause: unrecognized formatting clause "y"'),
        ("has(1)", 5, "invalid argument to has() macro"),
        ("[1].all(1, true)", 9, "argument must be a simple name"),
        ("cel.bind(1, 2, true)", 10, "cel.bind() variable names must be simple identifiers"),
        ("99999999999999999999 == 1", 1, "invalid int literal"),
        ("99999999999999999999u == 1u", 1, "invalid uint literal"),
        ("1e999 == 1.0", 1, "invalid double literal"),
        (r'"\ud800" == ""', 1, "unable to unescape string"),
    ],
)
def test_a_wrong_constant_is_refused(expression: str, column: int, message: str) -> None:
    assert complaint(expression) == f"ERROR: <input>:1:{column}: {message}"


def test_unlike_elements_are_accepted_where_all_are_dyn() -> None:
    assert ask('[dyn(1), dyn("a")].size() == 2') is True
    assert complaint('[dyn(1), "a"].size() == 2').endswith("expected type 'dyn' but found 'string'")
