"""No expression takes the process down, eats its memory or runs past its cost."""

from __future__ import annotations

import time

import pytest

from dray.cel import MAX_COST, Selector, compile_selector
from tests.cel.asking import BARE, ask, complaint

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
EXCEEDED = "operation cancelled: actual cost limit exceeded"


def _bound(first: str, step: str, depth: int, last: str) -> str:
    """Variables that each are made from the one before."""
    bindings = "".join(f"cel.bind(a{i}, {step.format(f'a{i - 1}') if i else first}, " for i in range(depth))
    return f"{bindings}{last.format(f'a{depth - 1}')}{')' * depth}"


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 250 + "true" + ")" * 250,
        "(" * 5000 + "true" + ")" * 5000,
        "size(" + "[" * 250 + "1" + "]" * 250 + ") == 1",
        "false ? true : " * 250 + "true",
        "+".join(["1"] * 260) + " == 260",
        "device" + ".a" * 300,
    ],
)
def test_deep_nesting_is_refused(expression: str) -> None:
    assert complaint(expression) == "ERROR: <input>:-1:0: expression recursion limit exceeded: 250"


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 200 + "true" + ")" * 200,
        "size(" + "[" * 200 + "1" + "]" * 200 + ") == 1",
        "[" * 120 + "1" + "]" * 120 + " == " + "[" * 120 + "1" + "]" * 120,
        "+".join(["1"] * 240) + " == 240",
        "!" * 10_000 + "true",
        "&&".join(["1 == 1"] * 1000),
        '"' + r"\x41" * 2500 + '".size() == 2500',
        "device.driver in [" + ",".join(f'"{i}"' for i in range(1500)) + ', "gpu.example.com"]',
    ],
)
def test_what_is_long_but_harmless_is_answered(expression: str) -> None:
    assert ask(expression) is True


@pytest.mark.parametrize(
    "expression",
    [
        f"{TEN}{''.join(f'.map(x{i}, {TEN}' for i in range(12))}{')' * 12}.size() == 1",
        "lists.range(999999).map(x, x + 1).size() == 3",
        "lists.range(100000).all(x, lists.range(100000).all(y, x + y >= 0))",
        _bound("[1]", "{0} + {0}", 100, "{}.size() > 0"),
        _bound('"xx"', "{0} + {0}", 100, "{}.size() > 0"),
        "[1, 2, 3].exists(a, " * 60 + "false" + ")" * 60,
        f'("{"a" * 4000}").replace("", "{"b" * 2000}").replace("", "{"b" * 2000}").size() > 0',
    ],
)
def test_a_bomb_ends_soon_with_the_error_of_its_cost(expression: str) -> None:
    began = time.process_time()
    outcome = Selector(expression).evaluate(BARE)
    assert outcome.error == EXCEEDED
    assert time.process_time() - began < 30  # unbounded, it would be ages


def test_macros_may_not_multiply_an_expression() -> None:
    chained = "optional.of(1)" + ".optMap(x, x)" * 30 + ".hasValue()"
    assert compile_selector(chained).error is not None
    assert ask("optional.of(1)" + ".optMap(x, x)" * 5 + ".hasValue()") is True


def test_an_evaluation_stops_where_the_cost_limit_is() -> None:
    selector = Selector("lists.range(900000).all(x, x >= 0)")
    outcome = selector.evaluate(BARE)
    assert outcome.error == EXCEEDED
    assert MAX_COST < outcome.cost < MAX_COST + 10


def test_regular_expressions_take_linear_time() -> None:
    began = time.process_time()
    assert ask(f'"{"a" * 3000}".matches("(a*)*(x+x+)+y")') is False
    assert time.process_time() - began < 5


def test_texts_that_formatting_would_blow_up_are_refused() -> None:
    assert isinstance(ask('"%.999999999f".format([1.0]) == ""'), str)
