"""A cluster in memory under virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.manifests import ManifestError
from dray.api.reasons.nodes import NodeCode, Unschedulable
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.api.wire import Tree
from dray.core.attempt import Promise
from dray.sim import hardware
from dray.sim.cluster import Cluster
from tests import objects

NOW = "2026-01-01T00:00:00Z"


def machines(count: int, devices: int = 2, first: int = 0) -> list[Tree]:
    objects: list[Tree] = [hardware.class_tree()]
    for number in range(first, first + count):
        objects += [hardware.node_tree(number, NOW), *hardware.slice_trees(number, devices, "uid")]
    return objects


def claim_spec(count: int) -> Tree:
    return objects.claim_spec(objects.request("gpus", hardware.CLASS, count=count))


def template(count: int) -> Tree:
    return objects.template(f"gpus-{count}", objects.request("gpus", hardware.CLASS, count=count), namespace="default")


def pod(name: str, gpus: int = 1, claim: str = "", **spec: Any) -> Tree:
    """A pod with so many GPUs of its own, or those of a claim."""
    source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": f"gpus-{gpus}"}
    entries = [{"name": "gpus", **source}] if gpus else []
    needs = {"requests": {"cpu": "1"}}
    return objects.pod(name, namespace="default", needs=needs, **{"resourceClaims": entries, **spec})


def cluster(nodes: int = 2, devices: int = 2) -> Cluster:
    return Cluster([*machines(nodes, devices), *(template(count) for count in (1, 2, 3))])


def places(made: Cluster) -> dict[str, str]:
    return {one.metadata.name: one.spec.nodeName for one in made.all(Pod)}


def test_a_pod_gets_a_node_and_its_devices_and_gives_them_back_when_its_time_is_up() -> None:
    made = cluster(1)
    made.submit(pod("a", 2), runs=100)
    made.submit(pod("b", 1), at=10, runs=5)
    made.advance(50)
    assert places(made) == {"a": "node-0", "b": ""}
    assert len(made.holders()) == 2
    assert [*made.waiting()] == ["default/b"]
    made.run()
    assert made.now == 105  # b began when a had ended
    assert not places(made)
    assert not [*made.all(ResourceClaim)]


def test_why_a_pod_waits_is_known_node_by_node() -> None:
    made = cluster(2)
    made.add(pod("many", 3))
    made.settle()
    (why,) = made.waiting().values()
    assert why.nearest is not None
    waits = made.get(Pod, "many", "default")
    assert waits is not None
    verdicts = made.verdicts(waits)
    assert [verdict.node for verdict in verdicts] == ["node-0", "node-1"]
    assert {reason.code for verdict in verdicts for reason in verdict.reasons} == {NodeCode.CANNOT_ALLOCATE}


def test_a_claim_that_pods_share_is_free_when_the_last_of_them_ends() -> None:
    made = cluster(2)
    tree = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
    }
    made.add({**tree, "spec": claim_spec(2)})
    made.submit(pod("a", claim="c"), runs=10)
    made.submit(pod("b", claim="c"), runs=20)
    made.advance(15)
    assert len(made.holders()) == 2
    made.advance(10)
    claim = made.get(ResourceClaim, "c", "default")
    assert claim is not None
    assert claim.status.allocation is None


def test_what_comes_helps_those_who_wait() -> None:
    made = cluster(1)
    made.add(pod("a", 2), pod("b", 2), pod("unknown", claim="later"))
    made.settle()
    assert places(made) == {"a": "node-0", "b": "", "unknown": ""}
    made.add(*machines(1, first=1))
    made.settle()
    assert places(made)["b"] == "node-1"
    tree = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    made.add({**tree, "metadata": {"name": "later", "namespace": "default"}, "spec": claim_spec(1)})
    made.remove(Pod, "a", "default")
    made.settle()
    assert places(made)["unknown"] == "node-0"


class Refusals:
    """Counts how often pods were tried in vain."""

    def __init__(self) -> None:
        self.count = 0

    def came(self, now: float, pod: Pod) -> None: ...

    def placed(self, now: float, pod: Pod, promise: Promise) -> None: ...

    def refused(self, now: float, pod: Pod, why: Unschedulable) -> None:
        self.count += 1

    def ended(self, now: float, pod: Pod) -> None: ...


def test_of_many_that_ask_for_the_same_only_those_are_tried_that_something_is_left_for() -> None:
    made = cluster(2)
    for number in range(20):
        made.submit(pod(f"{number:02}", 2), at=float(number), runs=1000)
    made.advance(100)
    seen = Refusals()
    made.observers.append(seen)
    made.run()
    assert (made.now, seen.count) == (10_001, 0)


def test_a_node_takes_its_pods_along() -> None:
    made = cluster(2)
    made.add(pod("a", 2))
    made.settle()
    made.remove(Node, places(made)["a"])
    assert not places(made)
    assert not made.holders()


def test_a_trial_leaves_no_trace() -> None:
    made = cluster(1)
    made.submit(pod("a", 1), runs=30)
    made.settle()
    with made.fork() as trial:
        trial.add(*machines(3, first=1), pod("b", 2), pod("c", 2))
        trial.advance(100)
        assert set(places(trial)) == {"b", "c"}
    assert places(made) == {"a": "node-0"}
    assert (made.now, len([*made.all(Node)]), len([*made.all(ResourceSlice)])) == (0, 1, 1)
    made.run()
    assert (made.now, places(made)) == (30, {})


@pytest.mark.parametrize("tree", [{"kind": "Pod"}, {"apiVersion": "v1", "kind": "Poot"}])
def test_what_is_no_object_is_refused(tree: Tree) -> None:
    with pytest.raises(ManifestError):
        cluster().add(tree)


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["submit", "advance", "add", "drop", "end"]), st.integers(0, 5)), max_size=12
)


def play(made: Cluster, steps: list[Step], tag: str) -> None:
    for number, (what, value) in enumerate(steps):
        nodes = sorted(one.metadata.name for one in made.all(Node))
        pods = sorted(one.metadata.name for one in made.all(Pod))
        match what:
            case "submit":
                made.submit(pod(f"{tag}-{number}", value % 4), runs=10 * value + 1)
            case "advance":
                made.advance(7 * value)
            case "add":
                made.add(*machines(1, first=value))
            case "drop" if nodes:
                made.remove(Node, nodes[value % len(nodes)])
            case "end" if pods:
                made.remove(Pod, pods[value % len(pods)], "default")
            case _:
                pass
        made.settle()


@given(before=STEPS, tried=STEPS, after=STEPS)
def test_a_cluster_goes_on_after_a_trial_as_if_there_had_been_none(
    before: list[Step], tried: list[Step], after: list[Step]
) -> None:
    plain, trying = cluster(), cluster()
    for made in (plain, trying):
        play(made, before, "before")
    with trying.fork() as trial:
        play(trial, tried, "tried")
    for made in (plain, trying):
        play(made, after, "after")
        made.advance(1000)
    assert places(trying) == places(plain)
    assert {*trying.holders()} == {*plain.holders()}
