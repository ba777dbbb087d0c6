"""Macros."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        "[1, 2, 3].all(i, j, i < j)",
        "{'hello': 'world', 'taco': 'taco'}.exists(k, v, k == v)",
        "[1, 1, 2, 2, 3, 3].existsOne(i, v, i == 2 && v == 2)",
        "[1, 2, 3].transformList(i, v, (i * v) + v) == [1, 4, 9]",
        "[1, 2, 3].transformList(i, v, i % 2 == 0, (i * v) + v) == [1, 9]",
        "[1, 2, 3].transformMap(i, v, (i * v) + v) == {0: 1, 1: 4, 2: 9}",
        "{'greeting': 'hello'}.transformMap(k, v, v + '!') == {'greeting': 'hello!'}",
        "{'greeting': 'hello'}.transformMapEntry(k, v, {v: k}) == {'hello': 'greeting'}",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].exists_one(x, x > 2)",
        '{1: "a", 2: "b"}.all(k, k < 3) && {true: 1}[true] == 1 && {1: "a"}[1] == "a" && {1u: "a"}[1u] == "a"',
        '["a", "b"].map(x, x + "!") == ["a!", "b!"]',
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True
