"""Many places in a tree, looked for by one compiled function."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dray.api.places import finder, present

NAMES = ("a", "b", "c")
PLAIN = st.one_of(st.none(), st.integers(0, 1))
# What a place finds behind a name is told by the name, as in the schema.
PATHS = ("a", "b|c", "one.a", "one.b|c", "list[].a", "list[].one.b", "map{}.c", "map{}.list[].a", "one.list[].map{}.b")
TREES = st.recursive(
    st.dictionaries(st.sampled_from(NAMES), PLAIN),
    lambda inner: st.builds(
        lambda plain, one, items, by_name: {**plain, "one": one, "list": items, "map": by_name},
        st.dictionaries(st.sampled_from(NAMES), PLAIN),
        st.one_of(st.none(), inner),
        st.lists(inner, max_size=3),
        st.one_of(st.none(), st.dictionaries(st.sampled_from(("x", "y")), inner)),
    ),
    max_leaves=12,
)


@given(st.sets(st.sampled_from(PATHS)), TREES)
def test_finds_what_is_present_at_any_path(paths: set[str], tree: dict[str, Any]) -> None:
    assert finder(paths)(tree) == any(present(tree, path) for path in paths)
