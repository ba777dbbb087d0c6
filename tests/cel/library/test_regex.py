"""Regular expressions."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        "\"abc 123\".find('[0-9]+') == '123'",
        "\"abc 123\".find('xyz') == ''",
        "\"123 abc 456\".findAll('[0-9]+') == ['123', '456']",
        "\"123 abc 456\".findAll('[0-9]+', 1) == ['123']",
        "\"123 abc 456\".findAll('xyz') == []",
        "\"abc\".findAll('') == ['', '', '', '']",
        'matches("abc", "b")',
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ('device.driver.matches(device.driver + "(")', "error parsing regexp: missing closing ): `gpu.example.com(`"),
        (
            'device.driver.find(device.driver + "[") == ""',
            "Illegal regex: error parsing regexp: missing closing ]: `[`",
        ),
        (
            'device.driver.findAll("*" + device.driver) == []',
            "Illegal regex: error parsing regexp: missing argument to repetition operator: `*`",
        ),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
