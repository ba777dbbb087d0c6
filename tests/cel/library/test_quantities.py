"""Quantities."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        'quantity("50000000G").isInteger()',
        'quantity("50k").asInteger() == 50000',
        'quantity("50k").sub(20000).asApproximateFloat() == 30000.0',
        'sign(quantity("-1")) == -1',
        'quantity("50k").add(quantity("20k")) == quantity("70k")',
        'quantity("50k").add(20) == quantity("50020")',
        'quantity("50k").add(20).sub(quantity("100k")).sub(-50000) == quantity("20")',
        'quantity("200M").compareTo(quantity("0.2G")) == 0',
        'isQuantity("1.3Gi") && !isQuantity("1,3G") && !isQuantity("200K")',
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (
            'quantity(device.driver) == quantity("1")',
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ('quantity("1.5").asInteger() == 1', "cannot convert value to integer"),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
