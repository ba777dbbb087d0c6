"""Only what changed is written."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dray.api.types.batch import JobCondition, JobStatus, UncountedTerminatedPods
from dray.apiserver.patches import merge_patch
from dray.controllers.workloads.pods import tree_of
from dray.controllers.workloads.status import difference

statuses = st.builds(
    JobStatus,
    active=st.integers(0, 2),
    ready=st.none() | st.integers(0, 2),
    completedIndexes=st.sampled_from(["", "0-2"]),
    conditions=st.lists(st.builds(JobCondition, type=st.sampled_from("ab")), max_size=2).map(tuple),
    uncountedTerminatedPods=st.none()
    | st.builds(
        UncountedTerminatedPods,
        failed=st.lists(st.sampled_from("xy"), max_size=2).map(tuple),
        succeeded=st.lists(st.sampled_from("xy"), max_size=2).map(tuple),
    ),
)


@given(statuses, statuses)
def test_the_difference_patched_into_the_one_gives_the_other(old: JobStatus, new: JobStatus) -> None:
    patched: Any = merge_patch(tree_of(old), difference(old, new))
    assert patched == tree_of(new)
    assert (difference(old, new) == {}) == (old == new)
