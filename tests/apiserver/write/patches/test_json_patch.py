"""RFC 6902 on JSON trees: what each operation does, what is refused, what is shared."""

import contextlib
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.errors import TooLarge
from dray.apiserver.write.patches import BadPatch, PatchRejected, json_patch
from dray.apiserver.write.patches.json_patch import MAX_OPERATIONS

TREE = {"a": {"b": [1, 2, {"c": "d"}]}, "e/f": 1, "g~h": 2, "n": None}


@pytest.mark.parametrize(
    ("operation", "path", "want"),
    [
        ({"op": "add", "path": "/x", "value": 1}, ["x"], 1),
        ({"op": "add", "path": "/a/b/0", "value": 9}, ["a", "b"], [9, 1, 2, {"c": "d"}]),
        ({"op": "add", "path": "/a/b/-", "value": 9}, ["a", "b"], [1, 2, {"c": "d"}, 9]),
        ({"op": "remove", "path": "/a/b/1"}, ["a", "b"], [1, {"c": "d"}]),
        ({"op": "replace", "path": "/a/b/2/c", "value": "x"}, ["a", "b"], [1, 2, {"c": "x"}]),
        ({"op": "replace", "path": "/e~1f", "value": 5}, ["e/f"], 5),
        ({"op": "replace", "path": "/g~0h", "value": 5}, ["g~h"], 5),
        ({"op": "move", "from": "/a/b/0", "path": "/x"}, ["x"], 1),
        ({"op": "copy", "from": "/a/b/2", "path": "/x"}, ["x"], {"c": "d"}),
        ({"op": "test", "path": "/a/b/0", "value": 1.0}, ["a"], TREE["a"]),
        ({"op": "test", "path": "/missing", "value": None}, ["a"], TREE["a"]),
    ],
)
def test_an_operation_does_what_the_rfc_says(operation, path, want):
    before = copy.deepcopy(TREE)
    result = json_patch(TREE, [operation])
    for token in path:
        result = result[token]
    assert result == want
    assert before == TREE, "the input was changed"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/metadata/labels/a/b", "value": 1},
        {"op": "test", "path": "/a/b/0", "value": 2},
        {"op": "test", "path": "/a/b/0", "value": True},
        {"op": "remove", "path": "/missing"},
        {"op": "remove", "path": "/a/b/3"},
        {"op": "remove", "path": "/a/b/-"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "/a/b/4", "value": 1},
        {"op": "add", "path": "/a/b/01", "value": 1},
        {"op": "add", "path": "/a/b/-1", "value": 1},
        {"op": "add", "path": "/e~1f/x", "value": 1},
        {"op": "add", "path": "/n/x", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "add", "path": "/x"},
        {"op": "add", "path": 1, "value": 1},
        {"op": "replace", "path": "", "value": [1]},
        {"op": "move", "path": "/x"},
        {"op": "move", "from": "/a", "path": "/a/b"},
        {"op": "copy", "from": "/zzz", "path": "/x"},
        {"op": "frobnicate", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_what_does_not_fit_the_object_is_rejected_with_kubernetes_text(operation):
    with pytest.raises(PatchRejected) as refused:
        json_patch(TREE, [operation])
    assert refused.value.status()["code"] == 422
    assert refused.value.message == "the server rejected our request due to an error in our request"
    assert refused.value.cause


@pytest.mark.parametrize("body", [{"op": "add"}, None, "x", 3, [1], [[]], [None]])
def test_what_is_no_patch_is_a_bad_request(body):
    with pytest.raises(BadPatch, match="error decoding patch: "):
        json_patch(TREE, body)


def test_too_many_operations_are_refused():
    with pytest.raises(TooLarge, match="maximum operations in a JSON patch is 10000, got 10001"):
        json_patch(TREE, [{"op": "test", "path": "/e~1f", "value": 1}] * (MAX_OPERATIONS + 1))


def test_copies_that_double_the_object_are_stopped():
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/{i}"} for i in range(60)]
    with pytest.raises(PatchRejected) as refused:
        json_patch({"a": {"x": "y" * 100}}, doubling)
    assert "copy operations add more" in refused.value.cause


def test_a_copy_and_its_original_change_apart():
    copies = [{"op": "copy", "from": "/a", "path": "/x"}, {"op": "copy", "from": "/a", "path": "/y"}]
    changes = [{"op": "add", "path": f"/{name}/b/2/c", "value": name} for name in ("a", "x")]
    result = json_patch(
        TREE, [*changes[:1], *copies, {"op": "add", "path": "/a/b/2/c", "value": "later"}, *changes[1:]]
    )
    assert [result[name]["b"][2]["c"] for name in ("a", "x", "y")] == ["later", "x", "a"]
    assert TREE["a"]["b"][2]["c"] == "d"


def test_a_copy_is_another_value():
    result = json_patch(TREE, [{"op": "copy", "from": "/a", "path": "/x"}])
    assert result["a"] == result["x"]
    assert result["a"]["b"] is not result["x"]["b"], "whoever defaults one would change the other"


def test_copies_of_long_texts_are_bounded_in_bytes():
    copies = [{"op": "copy", "from": "/a", "path": f"/{i}"} for i in range(4)]
    with pytest.raises(PatchRejected) as refused:
        json_patch({"a": "y" * 1_000_000}, copies)
    assert refused.value.cause == "copy operations add more than 3145728 bytes"


def test_untouched_parts_are_shared():
    tree = {"spec": {"big": [1, 2, 3]}, "metadata": {"labels": {}}}
    result = json_patch(tree, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}])
    assert result["spec"] is tree["spec"]
    assert tree == {"spec": {"big": [1, 2, 3]}, "metadata": {"labels": {}}}


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab~/", max_size=3),
    lambda child: st.lists(child, max_size=3) | st.dictionaries(st.text("ab~/-0", max_size=2), child, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("ab~/", max_size=2), TREES, max_size=3)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
            "path": st.text("/ab~01-", max_size=5),
            "from": st.text("/ab~01-", max_size=5),
            "value": TREES,
        },
    ),
    max_size=4,
)


@given(OBJECTS, OPERATIONS)
def test_any_operations_give_an_object_or_a_refusal_and_never_change_the_input(tree, operations):
    before = json.dumps(tree)
    with contextlib.suppress(PatchRejected, BadPatch):
        assert isinstance(json_patch(tree, operations), dict)
    assert json.dumps(tree) == before


@given(OBJECTS, st.text("ab~/", max_size=2), TREES)
def test_add_then_remove_gives_the_object_back(tree, key, value):
    tree.pop(key, None)
    path = "/" + key.replace("~", "~0").replace("/", "~1")
    added = json_patch(tree, [{"op": "add", "path": path, "value": value}])
    assert added[key] == value
    assert json_patch(added, [{"op": "remove", "path": path}]) == tree
