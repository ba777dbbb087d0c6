"""Answers that are kept: each is worked out once, long texts and too many are not kept."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from dray.api import names
from dray.api.quantity import Quantity
from dray.api.remembered import remembered


def test_an_answer_is_worked_out_once() -> None:
    asked: list[str] = []

    @remembered(2)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [length(text) for text in ("a", "bb", "a", "bb", "ccc", "a")] == [1, 2, 1, 2, 3, 1]
    assert asked == ["a", "bb", "ccc", "a"]


def test_what_is_raised_is_not_kept() -> None:
    @remembered(2)
    def number(text: str) -> int:
        return int(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            number("x")


@pytest.mark.parametrize("ask", [names.label, names.qualified_name, Quantity.parse])
def test_long_texts_are_not_left_behind(ask: object) -> None:
    assert callable(ask)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(50):
            ask("0" * 100_000 + str(number))
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
