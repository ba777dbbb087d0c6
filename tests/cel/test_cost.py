"""Estimates: what an expression costs at most, from the sizes that a device can have."""

from __future__ import annotations

import pytest

from dray.cel import MAX_COST, compile_selector
from tests.cel.asking import BARE, DOMAIN


def _estimate(expression: str) -> int:
    selector = compile_selector(expression)
    assert selector.error is None
    return selector.max_cost


@pytest.mark.parametrize(
    ("expression", "most"),
    [
        ("true", 0),
        ("1 == 1", 1),
        (f'device.driver == "{DOMAIN}"', 4),
        (f'device.attributes["{DOMAIN}"].model == "a100"', 5),
        ("[1, 2, 3].all(x, x > 0)", 26),
        ("size([1, 2]) == 2", 12),
    ],
)
def test_estimates(expression: str, most: int) -> None:
    assert _estimate(expression) == most


def test_loops_multiply() -> None:
    once = _estimate("device.attributes.all(d, d == 'a')")
    twice = _estimate("device.attributes.all(d, device.attributes.all(e, e == 'a'))")
    assert twice > 30 * once


def test_of_alternatives_the_dearer_counts() -> None:
    cheap, dear = "true", "'abcdefghijklmnopqrstuvwxyz'.matches('[a-z]+')"
    assert _estimate(f"device.driver == '' ? {dear} : {cheap}") == _estimate(f"device.driver == '' ? {dear} : {dear}")


def test_what_has_no_bound_is_beyond_the_limit() -> None:
    assert _estimate("lists.range(device.driver.size()).all(x, x >= 0)") > MAX_COST


@pytest.mark.parametrize(
    ("expression", "cost"),
    [("true", 0), ("true || nope", 0), ("1 == 1", 1), ("[1, 2, 3].exists(x, x == 1)", 10)],
)
def test_an_evaluation_costs_what_it_reaches(expression: str, cost: int) -> None:
    expression = expression.replace("nope", "1 / 0 == 1")
    assert compile_selector(expression).evaluate(BARE).cost == cost
