"""Optional values, and how they are reached."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        "optional.of(1).or(optional.of(2)).value() == 1",
        "optional.none().or(optional.of(2)).value() == 2",
        "optional.ofNonZeroValue(0).hasValue() == false",
        'optional.ofNonZeroValue("x").hasValue()',
        'optional.of({"a": 1}).a.value() == 1',
        "[1, 2, 3].first().value() == 1 && [1, 2, 3].last().value() == 3 && ![].first().hasValue()",
        "optional.unwrap([optional.of(1), optional.none()]) == [1]",
        "[?optional.of(1), 2, ?optional.none()] == [1, 2]",
        '{?"a": optional.of(1), ?"b": optional.none()} == {"a": 1}',
        "[1, 2][?5].orValue(7) == 7",
        '{"a": {"b": 1}}.?a.b.value() == 1',
        '{"a": {"b": 1}}.?x.b == optional.none()',
        'has({"a": {"b": 1}}.?a.b)',
        "optional.of(3).optFlatMap(x, optional.of(x + 1)).value() == 4",
        'device.attributes[?"x"].hasValue()',
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("optional.none().value() == 1", "optional.none() dereference"),
        (
            '{"a": 1}.?a.b == optional.none()',
            "RuleInvalid: compilation failed: ERROR: <input>:1:12: type 'int' does not support field selection\n | {\"a\": 1}.?a.b == optional.none()\n | ...........^",
        ),
    ],
)
def test_what_goes_wrong(expression: str, error: str) -> None:
    assert ask(expression) == error
