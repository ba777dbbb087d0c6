"""Conversions between types, and types as values."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        'string(1.5) == "1.5" && string(-1.23e4) == "-12300" && string(1e21) == "1e+21" && string(true) == "true" && string(b"abc") == "abc"',
        'double("1.5") == 1.5 && int("42") == 42 && uint("7") == 7u && bool("true") && int(3.9) == 3 && int(-3.9) == -3',
        'bytes("ä") == b"\\xc3\\xa4" && b\'\\303\\277\' == b"\\xc3\\xbf"',
        'type(1) == int && type("a") == string && type([]) == list && type({}) == map && type(null) == null_type && type(int) == type',
        'type(timestamp(0)) == google.protobuf.Timestamp && type(quantity("1")) == kubernetes.Quantity',
        "google.protobuf.Timestamp == type(timestamp(0))",
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("int(string(device.driver)) == 1", "type conversion error from 'string' to 'int'"),
        ("double(device.driver) == 1.0", "type conversion error from 'string' to 'double'"),
        ("bool(device.driver)", "type conversion error from 'string' to 'bool'"),
        ("uint(-size(device.driver)) == 1u", "unsigned integer overflow"),
        ('int("x") == 1', "InternalError: program instantiation failed: type conversion error from 'string' to 'int'"),
        ("int(1e30) == 1", "InternalError: program instantiation failed: integer overflow"),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
