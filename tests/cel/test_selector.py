"""Compiled selectors: both ways to evaluate them, interruptions, and what the API says about them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.cel import (
    MAX_COST,
    CelError,
    CelFeatures,
    CompileError,
    Interrupted,
    Refusal,
    Selector,
    check_selector,
    compile_selector,
)
from tests.cel.asking import BARE, DOMAIN, ask, device
from tests.cel.expressions import DEVICE, selectors

GPU = device({"model": {"string": "a100"}, "index": {"int": 3}, "healthy": {"bool": True}})
TOKENS = st.sampled_from(
    [
        "device",
        "driver",
        "attributes",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ".",
        ".?",
        ",",
        ":",
        "?",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "&&",
        "||",
        "==",
        "!=",
        "<",
        ">=",
        "in",
        "has",
        "all",
        "map",
        "x",
        "1",
        "2u",
        "3.5",
        "'a'",
        "b'z'",
        "null",
        "true",
        "cel.bind",
        "size",
        "matches",
        "`a-b`",
        "\\",
        '"',
        "'''",
        "@",
        "#",
        "//",
        "optional.of",
        "quantity",
        "format",
        "lists.range",
    ]
)


def test_the_devices_of_these_tests_are_the_same() -> None:
    assert DEVICE["driver"] == GPU.driver
    assert DEVICE["attributes"] == GPU.attributes


@given(selectors)
@settings(max_examples=120, deadline=None)
def test_quick_and_complete_evaluation_agree(expression: str) -> None:
    assert isinstance(ask(expression, GPU), bool | str)


@given(selectors)
@settings(max_examples=100, deadline=None)
def test_no_evaluation_costs_more_than_estimated(expression: str) -> None:
    selector = compile_selector(expression)
    assert selector.error is None
    assert selector.evaluate(GPU).cost <= selector.max_cost


@given(st.one_of(st.text(max_size=80), st.lists(TOKENS, max_size=25).map(" ".join)))
@settings(max_examples=400, deadline=None)
def test_any_text_compiles_or_is_refused(text: str) -> None:
    answer = ask(text)
    assert "internal error" not in str(answer)


@given(selectors, st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_selector_gives_an_answer_or_an_error(expression: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(expression) - 1))
    damage = data.draw(st.one_of(st.characters(), TOKENS, st.just("")))
    answer = ask(expression[:at] + damage + expression[at + 1 :], GPU)
    assert "internal error" not in str(answer)


def test_a_selector_that_does_not_compile_raises_when_asked() -> None:
    selector = Selector("nope")
    assert isinstance(selector.error, CompileError)
    for way in (selector.matches, selector.evaluate):
        with pytest.raises(CompileError, match="undeclared reference to 'nope'"):
            way(BARE)


def test_errors_have_one_root() -> None:
    assert issubclass(CompileError, CelError)
    assert issubclass(Interrupted, CelError)


def test_compiled_selectors_are_kept() -> None:
    assert compile_selector("1 == 1") is compile_selector("1 == 1")
    assert compile_selector("1 == 1") is not compile_selector("1 == 1", features=CelFeatures(list_attributes=True))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (
            {"string": "yes"},
            "string could not be converted to bool: unsupported native conversion from string to 'bool'",
        ),
        ({"int": 1}, "int could not be converted to bool: unsupported type conversion from 'int' to bool"),
        (
            {"version": "1.0.0"},
            "kubernetes.Semver could not be converted to bool: type conversion error from 'Semver' to 'bool'",
        ),
    ],
)
def test_a_result_that_is_not_a_bool_is_an_error(value: dict[str, object], error: str) -> None:
    assert ask(f'device.attributes["{DOMAIN}"].v', device({"v": value})) == f"CEL result of type {error}"


@pytest.mark.parametrize(
    "expression",
    [
        f"{list(range(200))}.all(x, x >= 0)",  # cheap enough for the quick way
        f"{list(range(200))}.all(i, x, i == x)",
        "lists.range(10000).all(x, x >= 0)",  # of unknown size when compiled
        "lists.range(100).map(x, lists.range(100).map(y, x + y)).size() == 100",
    ],
)
def test_an_interrupt_stops_loops_in_both_ways(expression: str) -> None:
    selector = compile_selector(expression)
    for way in (selector.matches, selector.evaluate):
        with pytest.raises(Interrupted):
            way(BARE, interrupt=lambda: True)
        way(BARE, interrupt=lambda: False)


def test_features_change_what_may_be_said() -> None:
    assert ask("device.allowMultipleAllocations") is False
    without = ask("device.allowMultipleAllocations", features=CelFeatures(consumable_capacity=False))
    assert "undefined field 'allowMultipleAllocations'" in str(without)


@pytest.mark.parametrize(
    ("expression", "refusal"),
    [
        ("true", None),
        ("true" + " " * 10_236, None),
        ("true" + " " * 10_237, Refusal("Invalid", "may not be more than 10240 bytes")),
        (
            "device.driver",
            Refusal("Invalid", "must evaluate to bool or the unknown type, not string"),
        ),
        (
            "node.name == 'a'",
            Refusal(
                "Invalid",
                "compilation failed: ERROR: <input>:1:1: undeclared reference to 'node' (in container '')\n"
                " | node.name == 'a'\n"
                " | ^",
            ),
        ),
        (
            "device.attributes.all(d, device.attributes.all(e, device.attributes.all(f, device.attributes.all(g, "
            "d.matches(e + f + g)))))",
            Refusal("Forbidden", "too complex, exceeds cost limit"),
        ),
    ],
)
def test_says_what_the_api_says(expression: str, refusal: Refusal | None) -> None:
    assert check_selector(expression) == refusal


def test_what_the_api_accepts_may_cost_no_more_than_the_limit() -> None:
    assert compile_selector("true").max_cost <= MAX_COST
