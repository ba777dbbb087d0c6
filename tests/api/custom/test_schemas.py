"""Schemas of custom resources: pruning, defaults, values, JSONPath, on their own."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.custom import jsonpath, objects
from dray.api.custom.pruning import fill, pruned
from dray.api.custom.structure import compiled
from dray.api.custom.values import value_faults

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "when": {"type": "string", "format": "date-time"},
                "any": {"x-kubernetes-int-or-string": True},
                "none": {"type": "string", "nullable": True},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "one": {"type": "object", "oneOf": [{"required": ["x"]}, {"required": ["y"]}], "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
            },
        }
    },
}  # fmt: skip
NODE = compiled(SCHEMA)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"size": 9}, {"spec.size": "Invalid value: 9: spec.size in body should be less than or equal to 5"}),
        ({"mode": "c"}, {"spec.mode": 'Unsupported value: "c": supported values: "a", "b"'}),
        ({"size": True}, {"spec.size": 'Invalid value: "boolean": spec.size in body must be of type integer: "boolean"'}),
        ({"size": 2.0, "any": 1, "none": None}, {}),
        ({"size": 2.5}, {"spec.size": 'Invalid value: "number": spec.size in body must be of type integer: "number"'}),
        ({"tags": ["a", "b", "a"]}, {"spec.tags[2]": 'Duplicate value: "a"'}),
        ({"labels": {"a": 1}}, {"spec.labels.a": 'Invalid value: "integer": spec.labels.a in body must be of type string: "integer"'}),
        ({"one": {}}, {"<nil>": 'Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid', "spec.one.x": "Required value"}),
    ],
)  # fmt: skip
def test_what_is_wrong_with_values(spec: dict[str, Any], expected: dict[str, str]) -> None:
    tree = {"spec": {"size": 1, **spec}}
    assert {fault.field: fault.detail for fault in value_faults(NODE, tree)} == expected


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "array", "maxItems": 0}, [1], ["Too many: 1: must have at most 0 items"]),
        ({"type": "string", "maxLength": 0, "minLength": 3}, "a", ["Too long: may not be more than 0 bytes"]),
        ({"type": "string", "pattern": "it's \"it\"", "format": "date"}, "a", [
            'Invalid value: "a":  in body should match \'it\'s "it"\'',
            'Invalid value: "a":  in body must be of type date: "a"',
        ]),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, 0, ["Invalid value: 0:  in body should be greater than 0"]),
        ({"type": "integer", "multipleOf": 2, "maximum": 3, "format": "int32"}, 5, [
            "Invalid value: 5:  in body should be a multiple of 2",
            "Invalid value: 5:  in body should be less than or equal to 3",
        ]),
        ({"type": "object", "maxProperties": 0, "required": ["b"]}, {"a": 1}, ["Too many: 1: must have at most 0 items", "Required value"]),
    ],
)  # fmt: skip
def test_constraints_of_values(schema: dict[str, Any], value: object, expected: list[str]) -> None:
    assert [fault.detail for fault in value_faults(compiled(schema), value)] == expected


def test_alternatives_judge_equal_values_once() -> None:
    judged: list[None] = []
    node = compiled({"type": "array", "items": {"anyOf": [{"pattern": f"^x{number}$"} for number in range(50)]}})
    assert value_faults(node, ["x49"] * 200, interrupt=lambda: bool(judged.append(None))) == []
    assert len(judged) == 250, "once for each value, and once for each alternative"


def test_alternatives_tell_true_from_one() -> None:
    flag = {"x-kubernetes-preserve-unknown-fields": True, "anyOf": [{"enum": [True]}, {"enum": ["on"]}]}
    node = compiled({"type": "array", "items": flag})
    assert value_faults(node, [True, "on"]) == []
    assert [fault.field for fault in value_faults(node, [True, 1])] == ["<nil>", "[1]"]


def test_pruning_tells_what_it_drops() -> None:
    tree = {"kind": "K", "spec": {"x": 1, "free": {"y": {"z": 1}}, "labels": {"a": "b"}}, "extra": {}}
    assert sorted(pruned(NODE, tree)) == ['unknown field "extra"', 'unknown field "spec.x"']
    assert tree == {"kind": "K", "spec": {"free": {"y": {"z": 1}}, "labels": {"a": "b"}}}


def test_nulls_and_defaults() -> None:
    tree = {"spec": {"size": None, "mode": None, "none": None}}
    fill(NODE, tree)
    assert tree == {"spec": {"size": 2, "none": None}}


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["spec", "size", "free", "a"]), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["spec", "status", "metadata", "other"]), JSON))
def test_any_tree_is_judged_and_what_is_pruned_stays_pruned(tree: dict[str, Any]) -> None:
    pruned(NODE, tree)
    fill(NODE, tree)
    once = copy.deepcopy(tree)
    assert pruned(NODE, tree) == []
    fill(NODE, tree)
    assert tree == once
    value_faults(NODE, tree)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name not in ("apiVersion", "kind", "metadata")), JSON
    )
)
def test_objects_keep_all_that_stands_at_the_top(tree: dict[str, Any]) -> None:
    if objects.unfit_name(tree) is not None:
        return  # refused when it is read
    whole = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, **tree}
    made = objects.from_tree(copy.deepcopy(whole))
    assert msgspec.json.decode(msgspec.json.encode(made)) == whole
    assert objects.decode(msgspec.json.encode(made)) == made


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [1]),
        (".list[0].n", ["x"]),
        (".list[-1].n", ["y"]),
        (".list[*].n", ["x", "y"]),
        (".list[0:1].n", ["x"]),
        ('.list[?(@.n=="y")].v', [2]),
        (".list[?(@.v>1)].n", ["y"]),
        ("['a']['b']", [1]),
        (r".odd\.key", [3]),
        ("..n", ["x", "y"]),
        (".missing.more", []),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    tree = {"a": {"b": 1}, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}], "odd.key": 3}
    assert list(jsonpath.find(path, tree)) == found


@given(st.text(alphabet=".[]'\"*?(@)=<>:-0123ab\\{}$", max_size=24), JSON)
def test_any_text_is_a_path_or_refused(path: str, value: Any) -> None:
    try:
        jsonpath.parse(path)
    except jsonpath.PathError:
        return
    list(jsonpath.find(path, value))
