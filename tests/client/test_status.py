"""The steps that a status is written in, applied to what the server has."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dray.api.types.batch import Job, JobCondition, JobStatus, UncountedTerminatedPods
from dray.api.types.core import Pod, PodCondition, PodStatus
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import ResourcePoolStatusRequest, ResourcePoolStatusRequestStatus
from dray.api.wire import Tree
from dray.apiserver.write.patches import json_patch
from dray.client import status

META = ObjectMeta(name="o", uid="u", resourceVersion="7")
conditions = st.builds(JobCondition, type=st.sampled_from("abc"), status=st.sampled_from(["True", "False"]))
statuses = st.builds(
    JobStatus,
    active=st.integers(0, 2),
    ready=st.none() | st.integers(0, 2),
    completedIndexes=st.sampled_from(["", "0-2"]),
    conditions=st.lists(conditions, max_size=3).map(tuple),
    uncountedTerminatedPods=st.none()
    | st.builds(
        UncountedTerminatedPods,
        failed=st.lists(st.sampled_from("xy"), max_size=2).map(tuple),
        succeeded=st.lists(st.sampled_from("xy"), max_size=2).map(tuple),
    ),
)


def status_steps(obj: Any, after: Any) -> list[Tree]:
    """The steps as the server gets them."""
    steps: list[Tree] = json.loads(msgspec.json.encode(status.status_steps(obj, after)))
    return steps


def served(obj: Any) -> Tree:
    """An object as a server has it."""
    tree: Tree = json.loads(msgspec.json.encode(obj))
    return tree


@given(statuses, statuses)
def test_the_steps_make_the_one_the_other(old: JobStatus, new: JobStatus) -> None:
    job = Job(metadata=META, status=old)
    steps = status_steps(job, new)
    assert (steps == []) == (old == new)
    assert json_patch(served(job), steps) == served(Job(metadata=META, status=new))


@given(statuses, statuses)
def test_the_steps_name_the_state_that_was_read(old: JobStatus, new: JobStatus) -> None:
    other = served(Job(metadata=ObjectMeta(name="o", uid="v", resourceVersion="8"), status=old))
    if steps := status_steps(Job(metadata=META, status=old), new):
        metadata = json_patch(other, steps)["metadata"]
        assert (metadata["uid"], metadata["resourceVersion"]) == ("u", "7")  # which the server then refuses


def test_what_the_reader_does_not_know_stays() -> None:
    """A newer server has further fields; whoever writes one condition leaves them in all others."""
    mine, other = PodCondition(type="Mine", status="False"), PodCondition(type="Other", status="True")
    pod = Pod(metadata=META, status=PodStatus(phase="Pending", conditions=(other, mine)))
    tree = served(pod)
    tree["status"]["newer"] = tree["status"]["conditions"][0]["newer"] = {"x": None}
    told = msgspec.structs.replace(pod.status, conditions=(other, PodCondition(type="Mine", status="True")))
    after = json_patch(tree, status_steps(pod, told))["status"]
    assert (after["newer"], after["conditions"][0]["newer"]) == ({"x": None}, {"x": None})
    assert [one["status"] for one in after["conditions"]] == ["True", "True"]


def test_a_status_that_is_not_there_is_put_there() -> None:
    for before in (None, ResourcePoolStatusRequestStatus()):
        request = ResourcePoolStatusRequest(metadata=META, status=before)
        tree = served(request)
        tree.pop("status", None)
        after = json_patch(tree, status_steps(request, ResourcePoolStatusRequestStatus(poolCount=3)))
        assert after["status"]["poolCount"] == 3
