"""Lists and sets."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        "[1, 2, 2, 3, 3, 3].distinct() == [1, 2, 3]",
        "lists.range(5) == [0, 1, 2, 3, 4]",
        "[5, 3, 1, 2].reverse() == [2, 1, 3, 5]",
        "[1,2,3,4].slice(1, 3) == [2, 3]",
        "[[1],[2,3],[4]].flatten() == [1, 2, 3, 4]",
        "[[[1]],[[2,3]]].flatten(2) == [1, 2, 3]",
        "[3, 2, 1].sort() == [1, 2, 3]",
        '["b", "c", "a"].sort() == ["a", "b", "c"]',
        '["foo", "ba", "x"].sortBy(e, e.size()) == ["x", "ba", "foo"]',
        "[1, 3].sum() == 4",
        "[1.0, 3.0].sum() == 4.0",
        "[duration('1m'), duration('1s')].sum() == duration('1m1s')",
        "[1, 2, 2, 3].indexOf(2) == 1",
        "['a', 'b', 'b', 'c'].lastIndexOf('b') == 2",
        "['a', 'b', 'b', 'c'].isSorted()",
        "![2.0, 1.0].isSorted()",
        "[].isSorted()",
        "[1, 3].min() == 1 && [1, 3].max() == 3",
        "sets.contains([], [])",
        "!sets.contains([], [1])",
        "sets.equivalent([1], [1, 1])",
        "sets.intersects([1], [1, 2])",
        "!sets.intersects([1], [])",
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("[].min() == 1", "min called on empty list"),
        ("[1, 2, 3].slice(2, 1) == []", "cannot slice(2, 1), start index must be less than or equal to end index"),
        ("[1, 2, 3].slice(0, 9) == []", "cannot slice(0, 9), list is length 3"),
        ("lists.range(-1) == []", "lists.range: size must be non-negative, got -1"),
        ("[[1]].flatten(-1) == [1]", "level must be non-negative"),
        ('[dyn(1), dyn("a")].sort() == [dyn(1)]', "list elements must have the same type"),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
