"""Questions to a simulated cluster, compared with what the cluster then does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.reasons.nodes import NodeCode
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.wire import Tree
from dray.sim import changes, hardware
from dray.sim.cluster import Cluster
from dray.sim.demands import DemandError, PodBatch, demand_of
from dray.sim.what_if import HowMany, _count_by_kind, _count_one_by_one, how_many, is_uniform, place
from tests import objects
from tests.sim.test_cluster import NOW, cluster, holders, pod, template


def demand(*trees: Tree) -> PodBatch:
    return demand_of([object_of(tree, FeatureGates()) for tree in trees], "default")


def claim_for(name: str, count: int) -> Tree:
    return objects.claim(name, objects.request("gpus", hardware.CLASS, count=count), namespace="default")


def workload(api: str, kind: str, **spec: Any) -> Tree:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": pod("x")["spec"] | {"restartPolicy": spec.pop("policy", "Always")},
    }
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"a": "b"}}}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "w"},
        "spec": {**selector, "template": template, **spec},
    }


def contents(made: Cluster) -> list[Any]:
    return [[*made.all(type_)] for type_ in (Node, Pod, ResourceClaim, ResourceSlice, DeviceTaintRule)]


def test_a_manifest_fits_where_the_pods_would_then_go() -> None:
    made = cluster(2)
    asked = demand(pod("a", 2), pod("b", 1))
    with made.fork() as trial:
        answer = {one.pod: (one.node, {str(use.device) for use in one.devices}) for one in place(trial, asked)}
    made.add(*asked.pods)
    made.settle()
    held = {
        f"default/{one.metadata.name}": (
            one.spec.nodeName,
            {
                str(device)
                for device, holder in holders(made).items()
                if holder.status.reservedFor[0].name == one.metadata.name
            },
        )
        for one in made.all(Pod)
    }
    assert answer == held
    assert sorted(len(devices) for _, devices in answer.values()) == [1, 2]


@given(nodes=st.integers(1, 4), devices=st.integers(0, 5), wanted=st.integers(1, 3), busy=st.integers(0, 3))
def test_the_count_is_exact_and_leaves_no_trace(nodes: int, devices: int, wanted: int, busy: int) -> None:
    made = cluster(nodes, devices)
    made.add(*(pod(f"busy-{number}", 1) for number in range(busy)))
    made.settle()
    before = contents(made)
    asked = demand(pod("more", wanted))
    found = how_many(made, asked, 100)
    assert contents(made) == before
    for number in range(found.copies):
        made.add(*asked.copy(str(number or "")).pods)
    made.settle()
    placed = [one for one in made.all(Pod) if one.metadata.name.startswith("more") and one.spec.nodeName]
    assert len(placed) == found.copies
    made.add(*asked.copy("1000").pods)
    made.settle()
    assert "default/more-1000" in made.waiting()
    assert found.end is not None
    assert found.end.why is not None
    assert {reason.code for reason in found.end.why.reasons} == {NodeCode.CANNOT_ALLOCATE}


def bare(found: HowMany | None) -> Any:
    """A count without what follows from the number of objects that were made: the name of the last pod's claim."""
    assert found is not None
    assert found.end is not None
    why = found.end.why
    return found.copies, found.end.pod, why and (why.nodes, why.reasons, why.nearest and why.nearest.node)


DEMANDS = st.sampled_from(
    [
        [pod("a", 1)],
        [pod("a", 2)],
        [pod("a", 0)],
        [claim_for("c", 2), pod("a", claim="c")],
        [pod("a", 1), pod("b", 1)],
        [pod("a", 1), pod("b", 1), pod("c", 1)],
        [workload("apps/v1", "Deployment", replicas=2)],
        [pod("a", 1, nodeSelector={"kubernetes.io/hostname": "node-1"})],
    ]
)


@given(nodes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=5), asked=DEMANDS, taint=st.booleans())
def test_counting_by_kinds_of_nodes_is_counting_one_by_one(
    nodes: list[tuple[int, int]], asked: list[Tree], taint: bool
) -> None:
    made = Cluster([hardware.class_tree(), template(1), template(2)])
    for number, (devices, busy) in enumerate(nodes):
        room = hardware.node_tree(number, NOW)
        room["status"]["allocatable"] = {"cpu": "3", "memory": "8Gi", "pods": "110"}
        made.add(room, *hardware.slice_trees(number, devices, "uid"))
        for own in range(busy):
            made.add(pod(f"busy-{number}-{own}", own % 2, nodeSelector={"kubernetes.io/hostname": f"node-{number}"}))
    made.settle()
    with made.fork() as trial:
        if taint and nodes:
            changes.taint(trial, "node-0", "example.com/broken=yes:NoSchedule")
        wanted = demand(*asked)
        assert is_uniform(trial, wanted)
        assert bare(_count_by_kind(trial, wanted, 100)) == bare(_count_one_by_one(trial, wanted, 100))


def test_nodes_that_share_devices_are_not_counted_by_kind() -> None:
    made = cluster(2)
    (pool,) = hardware.slice_trees(9, 3, "uid")
    pool["spec"] |= {"nodeName": "", "allNodes": True}
    made.add(pool)
    assert _count_by_kind(made, demand(pod("a", 1)), 100) is None
    assert how_many(made, demand(pod("a", 1)), 100).copies == 7


@pytest.mark.parametrize(
    "asked",
    [
        [pod("a", 1), pod("b", 2)],
        [claim_for("c", 1), pod("a", claim="c"), pod("b", claim="c")],
        [pod("a", 1, schedulingGates=[{"name": "g"}])],
        [
            pod(
                "a",
                1,
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {},
                    }
                ],
            )
        ],
    ],
)
def test_pods_that_differ_or_mind_each_other_are_counted_one_by_one(asked: list[Tree]) -> None:
    assert not is_uniform(cluster(2), demand(*asked))


def test_counting_stops_at_the_limit() -> None:
    found = how_many(cluster(2, 4), demand(pod("a", 1)), 3)
    assert (found.copies, found.end) == (3, None)


def test_each_copy_has_claims_of_its_own_and_is_counted_whole() -> None:
    asked = demand(claim_for("shared", 2), pod("a", claim="shared"), pod("b", claim="shared"))
    found = how_many(cluster(3, 3), asked, 100)
    assert found.copies == 3


@pytest.mark.parametrize("source", [{"resourceClaimTemplateName": "gpus-1"}, {"resourceClaimName": "ours"}])
def test_the_pods_of_each_copy_of_a_group_share_its_claim(source: Tree) -> None:
    entry = {"name": "gpu", **source}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]},
    }
    pods = [pod(name, 0, schedulingGroup={"podGroupName": "g"}) for name in ("a", "b")]
    for one in pods:
        one["spec"]["resourceClaims"] = [entry]
    named = [claim_for("ours", 1)] if "resourceClaimName" in source else []
    asked = demand(group, *named, *pods)
    found = cluster(1, 3)
    with found.fork() as trial:
        first, second = place(trial, asked)
    assert first.devices == second.devices != ()
    assert how_many(found, asked, 10).copies == 3


def test_a_claim_that_exists_is_used_as_it_is() -> None:
    made = cluster(2)
    made.add(claim_for("shared", 2), pod("first", claim="shared"))
    made.settle()
    held = set(holders(made))
    with made.fork() as trial:
        (found,) = place(trial, demand(claim_for("shared", 2), pod("second", claim="shared")))
    assert {use.device for use in found.devices} == held


def test_a_manifest_that_runs_already_is_asked_for_once_more() -> None:
    made = cluster(1)
    made.add(pod("a", 1))
    made.settle()
    with made.fork() as trial:
        (found,) = place(trial, demand(pod("a", 1)))
    assert (found.pod, found.node) == ("default/a-1", "node-0")


@pytest.mark.parametrize(
    ("tree", "pods"),
    [
        (workload("apps/v1", "Deployment", replicas=3), 3),
        (workload("apps/v1", "ReplicaSet", replicas=2), 2),
        (workload("apps/v1", "StatefulSet", replicas=2, serviceName="s"), 2),
        (workload("batch/v1", "Job", parallelism=4, completions=3, policy="Never"), 3),
        (workload("batch/v1", "Job", policy="Never"), 1),
        (claim_for("alone", 1), 1),
    ],
)
def test_workloads_and_claims_stand_for_pods(tree: Tree, pods: int) -> None:
    asked = demand(tree)
    assert len(asked.pods) == pods
    with cluster(2, 4).fork() as trial:
        found = place(trial, asked)
    assert [len(one.devices) for one in found] == [1] * pods


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        ([], "asks for nothing"),
        ([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}], "asks for nothing"),
        ([workload("apps/v1", "Deployment", replicas=0)], "asks for nothing"),
        ([workload("apps/v1", "DaemonSet")], "DaemonSet w: has a pod on every node"),
    ],
)
def test_what_asks_for_nothing_is_refused(trees: list[Tree], message: str) -> None:
    with pytest.raises(DemandError, match=message):
        demand(*trees)


def test_pods_that_cannot_be_tried_say_why() -> None:
    asked = demand(pod("lacks", claim="nowhere"), pod("gated", 1, schedulingGates=[{"name": "example.com/later"}]))
    with cluster(1).fork() as trial:
        lacks, gated = place(trial, asked)
    assert lacks.problem is not None
    assert (lacks.node, lacks.problem.claim) == ("", "nowhere")
    assert gated.gates == ("example.com/later",)


def test_a_drained_node_loses_its_pods_to_others_but_for_daemons() -> None:
    made = cluster(2)
    daemon = pod("daemon", 0, nodeName="node-0")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    daemon["metadata"]["ownerReferences"] = [owner]
    made.add(daemon, pod("a", 2, nodeSelector={"kubernetes.io/os": "linux"}))
    made.settle()
    place_of_a = next(one.spec.nodeName for one in made.all(Pod) if one.metadata.name == "a")
    with made.fork() as trial:
        moved = changes.drain(trial, place_of_a)
        assert [one.metadata.name for one in moved] == ["a"]
        trial.settle()
        found = trial.get(Pod, "a", "default")
        assert found is not None
        assert found.spec.nodeName not in ("", place_of_a)
        assert len(holders(trial)) == 2
    with made.fork() as trial:
        changes.drain(trial, "node-0")
        changes.drain(trial, "node-1")
        trial.settle()
        assert [*trial.waiting()] == ["default/a"]


def test_new_nodes_bring_devices_and_daemons() -> None:
    made = cluster(1)
    daemon = pod("daemon", 1, nodeName="")
    daemon["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]
    made.add(daemon)
    made.settle()
    assert how_many(made, demand(pod("a", 1)), 100).copies == 1
    with made.fork() as trial:
        assert changes.add_nodes(trial, 2, "node-0") == ["node-0-new-1", "node-0-new-2"]
        trial.settle()
        assert [len(trial.pods_on(node)) for node in ("node-0", "node-0-new-1", "node-0-new-2")] == [1, 1, 1]
        assert how_many(trial, demand(pod("a", 1)), 100).copies == 3
    assert how_many(made, demand(pod("a", 1)), 100).copies == 1


@pytest.mark.parametrize(
    ("target", "copies"), [("node-0", 2), ("gpu.example.com/node-0", 2), ("gpu.example.com/node-0/gpu-1", 3)]
)
def test_taints_keep_pods_away(target: str, copies: int) -> None:
    made = cluster(2)
    with made.fork() as trial:
        changes.taint(trial, target, "example.com/broken=yes:NoSchedule")
        assert how_many(trial, demand(pod("a", 1)), 100).copies == copies
    assert how_many(made, demand(pod("a", 1)), 100).copies == 4


@pytest.mark.parametrize(
    ("target", "text", "message"),
    [
        ("node-7", "a=b:NoSchedule", "there is no node node-7"),
        ("gpu.example.com/node-7", "a=b:NoSchedule", "there are no devices gpu.example.com/node-7"),
        ("gpu.example.com/node-0/gpu-9", "a=b:NoSchedule", "there are no devices"),
        ("node-0", "a=b", r"expected KEY\[=VALUE\]:NoSchedule"),
        ("node-0", "a=b:NoExecute", r"expected KEY\[=VALUE\]:NoSchedule"),
        ("node-0", ":NoSchedule", r"expected KEY\[=VALUE\]:NoSchedule"),
    ],
)
def test_changes_that_cannot_be_are_refused(target: str, text: str, message: str) -> None:
    with pytest.raises(changes.ChangeError, match=message):
        changes.taint(cluster(1), target, text)
