"""Semantic versions."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        'semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3',
        'semver("1.2.3").compareTo(semver("2.0.0")) == -1',
        "semver('v1.0', true) == semver('1.0.0')",
        "!isSemver('v1.0') && isSemver('v1.0', true)",
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ('semver(device.driver) == semver("1.0.0")', 'Invalid character(s) found in major number "gpu"'),
        ('semver("01" + ".0.0") == semver("1.0.0")', 'Major number must not contain leading zeroes "01"'),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
