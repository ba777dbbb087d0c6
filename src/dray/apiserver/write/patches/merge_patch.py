"""JSON merge patch (RFC 7396): objects merge, null deletes, everything else replaces.

Lists are replaced as a whole; only a strategic merge patch merges lists by key.
"""

from __future__ import annotations

from dray.api.wire import Tree
from dray.apiserver.write.patches.rejection import BadPatch
from dray.apiserver.write.patches.tree import JsonValue, kind, without_nulls


def merge_patch(tree: Tree, patch: JsonValue) -> Tree:
    """Return the tree with a merge patch applied. Inputs are not changed; unchanged parts are shared.

    Raises BadPatch if the patch is not an object.

    >>> merge_patch({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "e": 4})
    {'a': {'c': 2}, 'd': 3, 'e': 4}
    """
    if not isinstance(patch, dict):
        raise BadPatch(f"a merge patch is an object, not a {kind(patch)}")
    return _merged(tree, patch)


def _merged(tree: Tree, patch: Tree) -> Tree:
    """Return an object with a merge patch applied."""
    merged = dict(tree)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(old := merged.get(key), dict):
            merged[key] = _merged(old, value)
        else:
            merged[key] = without_nulls(value)
    return merged
