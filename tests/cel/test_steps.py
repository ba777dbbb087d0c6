"""Evaluation step by step: what is absorbed, what is not, and what it costs."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        "true || 1 / 0 == 1",
        "!(false && 1 / 0 == 1)",
        "1 / 0 == 1 || true",
        "[1, 0].exists(x, 1 / x == 1)",
        "![1, 0].all(x, 1 / x > 5)",
        "has(device.attributes.whatever)",
        '!has(device.attributes["x"].y)',
        '!("x" in device.attributes)',
        "cel.bind(x, 1 / 0, true)",
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("1 / 0 == 1 || false", "division by zero"),
        ("dyn(1) && true", "no such overload"),
        ("[1, 0].all(x, 1 / x > 0)", "division by zero"),
        ("[0, 1].map(x, 1 / x) == [1]", "division by zero"),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
