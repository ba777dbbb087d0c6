"""`dray bench scheduling`: figures, small here."""

from __future__ import annotations

import re

import pytest

from tests.cli.running import outcome


def test_it_prints_a_figure_for_each_measurement() -> None:
    code, text = outcome("bench", "scheduling", "--nodes", "4", "--devices", "8", "--pods", "12")
    assert code == 0, text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) >= 5
    for line in lines:
        match = re.search(r" (\d+) pods/s", line)
        assert match is not None, line
        assert int(match[1]) > 0


@pytest.mark.parametrize("option", ["--nodes", "--devices", "--pods"])
def test_numbers_below_one_are_refused(option: str) -> None:
    code, text = outcome("bench", "scheduling", option, "0")
    assert (code, text) == (2, f"dray bench: {option}: expected a number from 1, got 0\n")
