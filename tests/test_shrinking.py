"""Dictionaries that were large once."""

from __future__ import annotations

import sys

from dray.shrinking import shrink


def test_a_dictionary_that_is_almost_empty_gives_its_room_back_and_keeps_its_entries_in_order() -> None:
    table = {number: str(number) for number in range(100_000)}
    for number in range(99_990):
        del table[number]
    large = sys.getsizeof(table)
    shrink(table)
    assert list(table.items()) == [(number, str(number)) for number in range(99_990, 100_000)]
    assert sys.getsizeof(table) < large / 1000


def test_a_dictionary_that_is_full_is_left_alone() -> None:
    table = dict.fromkeys(range(100_000))
    for number in table:  # a dictionary that is changed meanwhile ends the loop with an error
        if number % 1000 == 0:
            shrink(table)
