"""RFC 7396 on JSON trees."""

import copy

import pytest

from dray.apiserver.write.patches import BadPatch, merge_patch


# The examples of RFC 7396, appendix A, whose documents are objects.
@pytest.mark.parametrize(
    ("tree", "patch", "want"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_examples_of_the_rfc(tree, patch, want):
    before = copy.deepcopy((tree, patch))
    assert merge_patch(tree, patch) == want
    assert (tree, patch) == before


def test_untouched_parts_are_shared():
    tree = {"spec": {"x": 1}, "metadata": {"labels": {"a": "b"}, "annotations": {"k": "v"}}}
    result = merge_patch(tree, {"metadata": {"labels": {"c": "d"}}})
    assert result["spec"] is tree["spec"]
    assert result["metadata"]["annotations"] is tree["metadata"]["annotations"]


@pytest.mark.parametrize("patch", [[], None, "x", 1])
def test_a_patch_that_is_no_object_is_a_bad_request(patch):
    with pytest.raises(BadPatch, match="a merge patch is an object"):
        merge_patch({}, patch)
