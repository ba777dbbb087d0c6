"""Strategic merge patches: lists by key, directives, order."""

import contextlib
import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.apiserver.write.patches import BadPatch, PatchRejected, strategic_merge

POD = "io.k8s.api.core.v1.Pod"
DEPLOYMENT = "io.k8s.api.apps.v1.Deployment"
CLAIM = "io.k8s.api.resource.v1.ResourceClaim"


def containers(*names):
    return {"spec": {"containers": [{"name": n, "image": f"{n}:1"} for n in names]}}


def names(tree, field="containers"):
    return [c["name"] for c in tree["spec"][field]]


def merged(tree, patch, message=POD):
    before = copy.deepcopy((tree, patch))
    result = strategic_merge(message, tree, patch)
    assert (tree, patch) == before, "an input was changed"
    return result


def test_an_element_is_found_by_its_merge_key_and_merged():
    result = merged(containers("a", "b"), {"spec": {"containers": [{"name": "b", "image": "b:2", "tty": True}]}})
    assert result["spec"]["containers"] == [
        {"name": "a", "image": "a:1"},
        {"name": "b", "image": "b:2", "tty": True},
    ]


def test_a_new_element_comes_before_those_that_the_patch_does_not_name():
    """As Kubernetes does it, for objects and plain values alike."""
    assert names(merged(containers("a"), {"spec": {"containers": [{"name": "n"}]}})) == ["n", "a"]
    finalizers = merged({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": ["b"]}})
    assert finalizers == {"metadata": {"finalizers": ["b", "a"]}}


def test_null_removes_a_field_of_an_element():
    result = merged(containers("a"), {"spec": {"containers": [{"name": "a", "image": None}]}})
    assert result["spec"]["containers"] == [{"name": "a"}]


def test_lists_without_strategy_are_replaced():
    tree = {"spec": {"containers": [{"name": "a", "args": ["x", "y"]}]}}
    result = merged(tree, {"spec": {"containers": [{"name": "a", "args": ["z"]}]}})
    assert result["spec"]["containers"][0]["args"] == ["z"]
    claim = {"spec": {"devices": {"requests": [{"name": "a"}]}}}
    changed = merged(claim, {"spec": {"devices": {"requests": [{"name": "b"}]}}}, CLAIM)
    assert changed["spec"]["devices"]["requests"] == [{"name": "b"}]


def test_patch_delete_removes_an_element():
    result = merged(containers("a", "b"), {"spec": {"containers": [{"$patch": "delete", "name": "a"}]}})
    assert names(result) == ["b"]


def test_patch_replace_in_a_list_replaces_the_list():
    result = merged(containers("a", "b"), {"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}})
    assert result["spec"]["containers"] == [{"name": "c"}]


def test_patch_replace_and_delete_of_an_object():
    tree = {"metadata": {"labels": {"a": "1"}}, "spec": {"nodeSelector": {"x": "y"}}}
    result = merged(tree, {"metadata": {"labels": {"$patch": "replace", "b": "2"}}})
    assert result["metadata"]["labels"] == {"b": "2"}
    assert merged(tree, {"metadata": {"labels": {"$patch": "delete"}}})["metadata"]["labels"] == {}
    assert merged(tree, {"metadata": {"labels": {"$patch": "merge", "b": "2"}}})["metadata"]["labels"] == {
        "a": "1",
        "b": "2",
    }


def test_delete_from_primitive_list():
    tree = {"metadata": {"finalizers": ["a", "b", "c"]}}
    result = merged(tree, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}})
    assert result == {"metadata": {"finalizers": ["b", "c"]}}
    assert merged({"metadata": {}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}) == {"metadata": {}}


def test_set_element_order_arranges_objects_and_keeps_others_near_their_place():
    tree = containers("a", "b", "c", "d")
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "new"}],
            "containers": [{"name": "new", "image": "n"}],
        }
    }
    assert names(merged(tree, patch)) == ["b", "c", "a", "new", "d"]


def test_set_element_order_arranges_plain_values():
    tree = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"$setElementOrder/finalizers": ["b", "c", "a"], "finalizers": ["c"]}}
    assert merged(tree, patch)["metadata"]["finalizers"] == ["b", "c", "a"]


def test_retain_keys_clears_the_rest():
    tree = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert merged(tree, patch, DEPLOYMENT)["spec"]["strategy"] == {"type": "Recreate"}


def test_a_volume_changes_its_source_with_retain_keys():
    tree = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}
    assert merged(tree, patch)["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_a_new_subtree_carries_no_nulls_and_no_directives():
    patch = {"spec": {"securityContext": {"$patch": "merge", "runAsUser": 1, "runAsGroup": None}}}
    assert merged({}, patch) == {"spec": {"securityContext": {"runAsUser": 1}}}


def test_trees_made_from_structs_hold_tuples():
    tree = {"spec": {"containers": ({"name": "a"},)}}
    assert names(merged(tree, {"spec": {"containers": [{"name": "a", "tty": True}]}})) == ["a"]


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"image": "no name"}]}},
        {"spec": {"containers": ["x"]}},
        {"spec": {"containers": [{"name": {"a": 1}}]}},
        {"spec": {"containers": [{"$patch": "delete"}]}},
        {"spec": {"containers": [{"$patch": "explode", "name": "a"}]}},
        {"spec": {"$patch": "explode"}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}},
        {"spec": {"$retainKeys": "x"}},
        {"spec": {"$retainKeys": ["nodeName"], "hostname": "x"}},
        {"spec": {"$setElementOrder/containers": "x"}},
        {"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "z"}]}},
    ],
)
def test_misused_directives_are_rejected(patch):
    with pytest.raises(PatchRejected):
        merged(containers("a"), patch)


def test_a_patch_that_is_no_object_is_a_bad_request():
    with pytest.raises(BadPatch, match="a strategic merge patch is an object"):
        strategic_merge(POD, {}, [])


def test_untouched_parts_are_shared():
    tree = {"spec": {"containers": [{"name": "a"}]}, "metadata": {"labels": {}}}
    assert strategic_merge(POD, tree, {"metadata": {"labels": {"x": "y"}}})["spec"] is tree["spec"]


MEMBERS = st.sampled_from(
    [
        "spec", "metadata", "containers", "finalizers", "name", "labels", "image", "ports", "containerPort", "$patch",
        "$retainKeys", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/containers", "$setElementOrder/finalizers",
    ]
)  # fmt: skip
PATCHES = st.dictionaries(
    MEMBERS,
    st.recursive(
        st.none() | st.sampled_from(["a", "b", "delete", "replace", "merge", 1, True]),
        lambda child: st.lists(child, max_size=3) | st.dictionaries(MEMBERS, child, max_size=3),
        max_leaves=10,
    ),
    max_size=3,
)


@given(PATCHES, PATCHES)
def test_any_patch_gives_an_object_or_a_refusal_and_no_directive_remains(first, second):
    tree = containers("a", "b")
    with contextlib.suppress(PatchRejected):
        tree = merged(tree, {"spec": first, "metadata": second})
        assert isinstance(tree, dict)
        assert not [key for key in (*tree["spec"], *tree["metadata"]) if key.startswith("$")]
