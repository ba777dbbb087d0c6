"""What is read from selectors without evaluating them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.inspect.expressions import AttributeAccess, accesses, conjuncts, in_words

D = 'device.attributes["d.io"]'


@pytest.mark.parametrize(
    ("expression", "name", "guarded"),
    [
        (f"{D}.a", "a", False),
        (f'{D}["a"]', "a", False),
        (f"{D}.?a.orValue(false)", "a", True),
        (f"has({D}.a)", "a", True),
        (f"has({D}.a) && {D}.a", "a", True),
        (f"{D}.a && has({D}.a)", "a", True),
        (f'"a" in {D} && {D}.a', "a", True),
        (f"has({D}.b) && {D}.a", "a", False),
        (f"has({D}.a) ? {D}.a : false", "a", True),
        (f"has({D}.a) || {D}.a", "a", False),
        (f"cel.bind(x, {D}, x.a)", "a", False),
        (f"cel.bind(x, {D}, has(x.a) && x.a)", "a", True),
    ],
)
def test_accesses_and_whether_they_are_guarded(expression: str, name: str, guarded: bool) -> None:
    assert AttributeAccess("attributes", "d.io", name, guarded) in accesses(expression)


def test_capacities_and_computed_names() -> None:
    assert accesses('device.capacity["d.io"].memory.compareTo(quantity("1Gi")) > 0') == [
        AttributeAccess("capacity", "d.io", "memory", False)
    ]
    assert accesses("device.attributes[device.driver].a") == []
    assert accesses("not an expression (") == []


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("a && b && c", ["a", "b", "c"]),
        ("a && (b && c)", ["a", "b", "c"]),
        ("((a && b)) && (c || d)", ["a", "b", "(c || d)"]),
        ("(a && b) || (c && d)", ["(a && b) || (c && d)"]),
        ("(a).f(b && c) && d", ["(a).f(b && c)", "d"]),
        ("!(a && b)", ["!(a && b)"]),
        ("a || b && c", ["a || b && c"]),
        ("a ? b && c : d", ["a ? b && c : d"]),
        ('a == "x && y" && b', ['a == "x && y"', "b"]),
        ("a", ["a"]),
        ("a &&", ["a &&"]),
    ],
)
def test_parts_of_a_conjunction(expression: str, parts: list[str]) -> None:
    assert conjuncts(expression) == parts


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (f'{D}.model == "a100"', "model = a100"),
        (f'{D}.model != "a100"', "model ≠ a100"),
        (f"{D}.index < 4", "index < 4"),
        (f"{D}.shared == true", "shared = true"),
        ('device.capacity["d.io"].memory.compareTo(quantity("40Gi")) >= 0', "memory ≥ 40Gi"),
        ('device.driver == "d.io"', "driver = d.io"),
        (f'{D}.model.startsWith("a")', f'{D}.model.startsWith("a")'),
        ("(", "("),
    ],
)
def test_comparisons_in_words(part: str, words: str) -> None:
    assert in_words(part) == words


@given(st.text(max_size=60))
def test_no_text_crashes(text: str) -> None:
    accesses(text)
    assert conjuncts(text)
    in_words(text)
