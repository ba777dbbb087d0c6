"""Formatted strings."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        '"%s-%d".format(["a", 1]) == "a-1"',
        '"%.2f".format([1234.5]) == "1,234.50"',
        '"%x %X %o %b".format([255, 255u, 8, 5]) == "ff FF 10 101"',
        '"%s".format([[1, "a", 2.0, true, null]]) == "[1, \\"a\\", 2.000000, true, null]"',
        '"%s".format([{"b": 1, "a": 2}]) == "{\\"a\\":2, \\"b\\":1}"',
        '"%%".format([]) == "%"',
        '"%x".format(["hi"]) == "6869"',
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (
            '"%d".format([dyn("a")]) == ""',
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ('(device.driver + "%s %s").format(["a"]) == ""', "index 1 out of range"),
        (
            '(device.driver + "%y").format(["a"]) == ""',
            'could not parse formatting clause: unrecognized formatting clause "y"',
        ),
        (
            '"%f".format([dyn("x")]) == ""',
            "error during formatting: fixed-point clause can only be used on doubles, was given string",
        ),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
