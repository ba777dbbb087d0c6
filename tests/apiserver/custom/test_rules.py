"""Rules of schemas, asked directly: what they say about values of the types that only schemas have."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.custom.structure import compiled
from dray.apiserver.custom.rules import errors, faults

TEXTS = {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 9}}
PORT = {
    "type": "object",
    "required": ["p"],
    "properties": {"p": {"type": "integer"}, "n": {"type": "string", "maxLength": 9}},
}
PORTS = {
    "type": "array",
    "maxItems": 9,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["p"],
    "items": PORT,
}
LIST = {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9}}


def holds(place: Any, rule: str, value: Any, old: Any = None) -> bool:
    rules = {"x-kubernetes-validations": [{"rule": rule}]}
    root = compiled({"type": "object", "properties": {"x": {**place, **rules}}})
    assert list(faults(root)) == []
    return errors(root, {"x": value}, None if old is None else {"x": old}) == []


@pytest.mark.parametrize(
    ("place", "rule", "value", "good"),
    [
        (TEXTS, "self == ['b', 'a']", ["a", "b"], True),
        (TEXTS, "self == ['b', 'a']", ["a", "c"], False),
        (TEXTS, "self == ['a']", ["a", "b"], False),
        (TEXTS, "self + ['a', 'c'] == ['a', 'b', 'c']", ["b", "a"], True),
        (TEXTS, "(self + ['a'])[0] == 'b' && size(self + ['a']) == 2", ["b", "a"], True),
        (LIST, "self == ['b', 'a']", ["a", "b"], False),
        (LIST, "size(self + ['a']) == 3", ["a", "b"], True),
        (PORTS, "size(self + self) == 2 && self.exists(e, e.p == 1)", [{"p": 1}, {"p": 2}], True),
        (PORTS, "size(self + self.filter(e, e.p == 1)) == 2", [{"p": 1}, {"p": 2}], True),
    ],
)  # fmt: skip
def test_lists_of_which_elements_are_told_apart_have_no_order(place: Any, rule: str, value: Any, good: bool) -> None:
    assert holds(place, rule, value) is good


def test_the_same_elements_in_another_order_are_no_change() -> None:
    old, rule = [{"p": 1, "n": "a"}, {"p": 2, "n": "b"}], "self == oldSelf"
    assert holds(PORTS, rule, [old[1], old[0]], old)
    assert not holds(PORTS, rule, [{"p": 2, "n": "other"}, old[0]], old)
    assert holds(TEXTS, rule, ["b", "a"], ["a", "b"])
    assert not holds(LIST, rule, ["b", "a"], ["a", "b"])
