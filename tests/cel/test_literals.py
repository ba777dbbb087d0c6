"""Literals."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        '"\\u00e4" == "ä" && \'\\x41\' == "A" && r\'\\n\' == "\\\\n" && """a\nb""" == "a\\nb"',
        "0x10 == 16 && 0xFFu == 255u && 1e3 == 1000.0 && .5 == 0.5",
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True
