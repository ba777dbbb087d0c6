"""A cluster in memory under virtual time."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.gates import FeatureGates
from dray.api.manifests import ManifestError
from dray.api.reasons.nodes import NodeCode, Unschedulable
from dray.api.types.core import Node, Pod
from dray.api.types.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice
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


def holders(made: Cluster) -> dict[DeviceId, ResourceClaim]:
    """Which claim holds a device, whole or in part."""
    return {device: claim for claim in made.all(ResourceClaim) for device in taken_by_claim(claim).touched}


def places(made: Cluster) -> dict[str, str]:
    return {one.metadata.name: one.spec.nodeName for one in made.all(Pod)}


def test_a_pod_gets_a_node_and_its_devices_and_gives_them_back_when_its_time_is_up() -> None:
    made = cluster(1)
    made.submit(pod("a", 2), runs=100)
    made.submit(pod("b", 1), at=10, runs=5)
    made.advance(50)
    assert places(made) == {"a": "node-0", "b": ""}
    assert len(holders(made)) == 2
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
    assert len(holders(made)) == 2
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
    assert not holders(made)


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
    assert {*holders(trying)} == {*holders(plain)}


def test_a_trial_that_places_a_pod_leaves_the_reason_for_which_it_waits() -> None:
    made = cluster(1)
    made.add(pod("many", 3))
    made.settle()
    before = made.waiting()
    with made.fork() as trial:
        trial.add(*machines(1, devices=3, first=1))
        trial.settle()
        assert not trial.waiting()
        trial.add(pod("more", 3))
        trial.settle()
        assert [*trial.waiting()] == ["default/more"]
    assert made.waiting() == before
    assert made.explain("many").why == before["default/many"]


def test_a_pod_that_is_released_in_a_trial_is_held_afterwards() -> None:
    made = cluster(1)
    tree = pod("held", 1)
    tree["metadata"]["uid"] = "held"
    made.hold("held")
    made.add(tree)
    with made.fork() as trial:
        trial.release("held")
        trial.settle()
        assert places(trial) == {"held": "node-0"}
    made.add(template(1), tree)  # which lets the pod be looked at again
    made.settle()
    assert places(made) == {"held": ""}
    made.release("held")
    made.settle()
    assert places(made) == {"held": "node-0"}


def test_whatever_a_trial_sets_is_taken_back() -> None:
    made = cluster()
    before = {name: copy(one) if isinstance(one, (list, dict)) else one for name, one in vars(made).items()}
    with made.fork() as trial:
        trial.among, trial.is_terse, trial.preferred = 1, True, lambda pod: "node-1"
        trial.submit(pod("later"), at=5.0)
        trial.submit(pod("large", 3))
        trial.submit(pod("now"), runs=3.0)
        trial.settle()
        trial.advance(1.0)
        assert trial.waiting()
    assert vars(made) == before


def test_observers_are_told_of_the_cluster_and_not_of_trials() -> None:
    made = cluster(1)
    seen = Refusals()
    made.observers.append(seen)
    with made.fork() as trial:
        own = Refusals()
        trial.observers.append(own)
        trial.add(pod("tried", 3))
        trial.settle()
        assert (own.count, seen.count) == (1, 0)
    made.add(pod("real", 3))
    made.settle()
    assert (own.count, seen.count) == (1, 1)


def test_a_trial_within_a_trial_ends_alone() -> None:
    made = cluster(1)
    with made.fork() as outer:
        outer.add(pod("outer", 1))
        outer.settle()
        with outer.fork() as inner:
            inner.add(pod("inner", 1))
            inner.settle()
        assert places(outer) == {"outer": "node-0"}
        assert len(holders(outer)) == 1
    assert not places(made)
    assert not holders(made)


def test_a_trial_that_fails_leaves_no_trace() -> None:
    made = cluster(1)

    def fail() -> None:
        with made.fork() as trial:
            trial.add(pod("a", 1))
            trial.settle()
            trial.remove(Pod, "unknown", "default")

    with pytest.raises(KeyError):
        fail()
    assert not places(made)
    assert not holders(made)


def test_a_preview_and_a_trial_leave_the_order_in_which_nodes_are_tried() -> None:
    """Many nodes, of which a search looks at some: the next search begins where the last one ended."""
    plain, asked, tried = (Cluster([*machines(300, 1), template(1)]) for _ in range(3))
    for made in (plain, asked, tried):
        first = pod("first", 1)
        first["metadata"]["uid"] = "first"
        made.add(first)
    assert asked.preview("first") is not None
    with tried.fork() as trial:
        trial.settle()
    for made in (plain, asked, tried):
        made.settle()
        made.add(pod("second", 1))
        made.settle()
    assert places(asked) == places(plain)
    assert places(tried) == places(plain)


def test_a_preview_takes_no_devices() -> None:
    made = cluster(1, devices=1)
    for name in ("a", "b"):
        tree = pod(name, 1)
        tree["metadata"]["uid"] = name
        made.add(tree)
    assert made.preview("a") is not None
    assert made.preview("b") is not None
    made.remove(Pod, "a", "default")
    made.settle()
    assert places(made) == {"b": "node-0"}


def test_the_time_of_a_pod_that_was_replaced_ends_nobody_else() -> None:
    made = cluster(1)
    made.submit(pod("a", 1), runs=10)
    made.settle()
    made.remove(Pod, "a", "default")
    made.submit(pod("a", 1), runs=100)
    made.advance(50)
    assert places(made) == {"a": "node-0"}
    made.advance(60)
    assert not places(made)


def test_a_node_takes_all_of_its_pods_along() -> None:
    made = cluster(1)
    made.add(pod("a", 1), pod("b", 1))
    made.settle()
    made.remove(Node, "node-0")
    assert not places(made)
    assert not holders(made)


def test_events_happen_in_their_order_and_none_before_its_time() -> None:
    made = cluster(1)
    made.submit(pod("late", 2), at=60, runs=10)
    made.submit(pod("early", 2), at=10, runs=20)
    made.advance(61)
    assert places(made) == {"late": "node-0"}
    made.run()
    assert made.now == 70


def near(app: str, kind: str) -> Tree:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def labelled(tree: Tree, **labels: str) -> Tree:
    tree["metadata"]["labels"] = labels
    return tree


def test_a_pod_that_is_placed_or_ends_helps_those_who_mind_it() -> None:
    made = cluster(1)
    made.add(pod("follower", 0, **near("leader", "podAffinity")))
    made.settle()
    assert places(made) == {"follower": ""}
    made.add(labelled(pod("leader", 0), app="leader"), pod("loner", 0, **near("leader", "podAntiAffinity")))
    made.settle()
    assert places(made) == {"follower": "node-0", "leader": "node-0", "loner": ""}
    made.remove(Pod, "leader", "default")
    made.settle()
    assert places(made)["loner"] == "node-0"


def test_a_template_that_comes_late_serves_every_pod_that_waits_for_it() -> None:
    made = Cluster(machines(1))
    made.add(pod("a", 1), pod("b", 1))
    made.settle()
    made.add(template(1))
    made.settle()
    assert places(made) == {"a": "node-0", "b": "node-0"}


def taint_rule(device: str) -> Tree:
    selector = {"driver": hardware.DRIVER, "pool": "node-0", "device": device}
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    rule = {"deviceSelector": selector, "taint": taint}
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": rule,
    }


def test_a_taint_rule_holds_for_slices_that_change_and_goes_with_its_taints() -> None:
    made = cluster(1, devices=1)
    [piece] = made.all(ResourceSlice)
    [device] = piece.spec.devices
    made.add(taint_rule(device.name), piece, pod("a", 1))
    made.settle()
    assert places(made) == {"a": ""}
    made.remove(DeviceTaintRule, "r")
    made.settle()
    assert places(made) == {"a": "node-0"}


def test_a_claim_that_replaces_another_takes_over_its_name_and_not_its_devices() -> None:
    made = cluster(1, devices=2)
    shared = {**objects.claim("c"), "spec": claim_spec(1)}
    shared["metadata"]["namespace"] = "default"
    made.add(shared, pod("a", claim="c"))
    made.settle()
    [held] = holders(made)
    old = made.get(ResourceClaim, "c", "default")
    assert old is not None
    assert old.status.allocation is not None
    [result] = old.status.allocation.devices.results
    other = replace(result, device=next(d.name for d in devices_of(made) if d.name != held.device))
    allocation = replace(old.status.allocation, devices=replace(old.status.allocation.devices, results=(other,)))
    made.add(
        replace(old, metadata=replace(old.metadata, uid="new"), status=replace(old.status, allocation=allocation)),
        pod("b", 1),
    )
    made.settle()
    assert places(made)["b"] == "node-0"
    assert held in holders(made)


def devices_of(made: Cluster) -> list[Device]:
    return [device for piece in made.all(ResourceSlice) for device in piece.spec.devices]


def test_a_term_follows_the_labels_of_namespaces() -> None:
    made = cluster(1)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}}
    made.add(namespace, labelled(pod("leader", 0), app="leader"))
    tree = pod("follower", 0, **near("leader", "podAffinity"))
    [term] = tree["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    term["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    tree["metadata"]["namespace"] = "other"
    made.add(tree)
    made.settle()
    assert places(made) == {"leader": "node-0", "follower": "node-0"}


def test_a_group_that_is_added_again_keeps_the_claim_of_its_pods() -> None:
    gates = FeatureGates.parse("GenericWorkload=true,WorkloadPodGroupResourceClaimTemplate=true")
    made = Cluster([*machines(1), template(1)], gates=gates)
    entry = {"name": "gpus", "resourceClaimTemplateName": "gpus-1"}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "g"},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]},
    }
    member = {"schedulingGroup": {"podGroupName": "g"}}
    made.add(group, pod("a", 1, **member))
    made.settle()
    before = holders(made)
    made.add(group, pod("b", 1, **member))
    made.settle()
    assert places(made) == {"a": "node-0", "b": "node-0"}
    assert len(before) == 1
    assert {device: claim.metadata.uid for device, claim in holders(made).items()} == {
        device: claim.metadata.uid for device, claim in before.items()
    }
