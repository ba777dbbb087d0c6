"""One attempt: rules one after the other, the words of a refusal, and what happens at the last step."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from dray.allocator import Index
from dray.allocator.budget import STEPS_PER_SECOND, UNLIMITED
from dray.api.claim_access import ClaimUse, PodClaims
from dray.api.gates import FeatureGates
from dray.api.reasons.devices import StepCode
from dray.api.reasons.nodes import NodeCode, SchedulingRule, Unschedulable
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.core.attempt import COMPARED, Attempt, Placement, Promise, Refused, Unfinished
from dray.core.configuration import SchedulerProfile
from dray.core.devices import Devices
from dray.sim.hardware import class_tree, node_name, slice_trees
from dray.verdicts.demand import Candidate
from dray.verdicts.neighbours import Neighbours
from dray.verdicts.nodes import NodeTable
from tests import objects
from tests.e2e.objects import request
from tests.scheduler.objects import node, pod


class Scene:
    """Nodes with devices, and a placement that decides about them."""

    def __init__(self, nodes: int = 3, devices: int = 0) -> None:
        self.table = NodeTable()
        self.index = Index()
        self.index.upsert_class(msgspec.convert(class_tree(), DeviceClass))
        self.devices = Devices(self.index, lambda *_: None, lambda _: None, self.table, FeatureGates(), time.monotonic)
        self.placement = Placement(self.table, Neighbours(self.table, lambda _: {}), self.devices)
        for number in range(nodes):
            self.add(node(node_name(number)))
            for tree in slice_trees(number, devices, "uid"):
                self.index.upsert_slice(msgspec.convert(tree, ResourceSlice))

    def add(self, made: Node) -> None:
        self.index.upsert_node(made)
        self.table.upsert(made, self.index.number(made.metadata.name))

    def attempt(self, wanted: Pod, *claims: ResourceClaim, profile: SchedulerProfile | None = None) -> Attempt:
        uses = [ClaimUse(used, False) for used in claims]
        pending = [used for used in claims if used.status.allocation is None]
        allocated = [used for used in claims if used.status.allocation is not None]
        state = PodClaims(wanted, uses=uses, pending=pending, allocated=allocated)
        return Attempt(Candidate(wanted), state, profile or SchedulerProfile())

    def decide(self, wanted: Pod, *claims: ResourceClaim, profile: SchedulerProfile | None = None) -> Promise:
        promise = self.placement.decide(self.attempt(wanted, *claims, profile=profile))
        assert isinstance(promise, Promise)
        self.table.place(wanted, promise.node)
        return promise

    def refusal(self, wanted: Pod, *claims: ResourceClaim, profile: SchedulerProfile | None = None) -> Refused:
        refused = self.placement.decide(self.attempt(wanted, *claims, profile=profile))
        assert isinstance(refused, Refused)
        return refused


def counts(refused: Refused) -> dict[tuple[NodeCode, str], int]:
    """How many nodes were refused, by code and subject."""
    return {(reason.code, reason.subject): nodes.bit_count() for reason, nodes in refused.why.reasons.items()}


def one(selector: str = "") -> dict[str, Any]:
    """A request for one device, with what the server fills in."""
    return request(count=1, allocationMode="ExactCount", selector=selector)


def known_claim(name: str, *requests: dict[str, Any], **status: Any) -> ResourceClaim:
    tree = objects.claim(
        name, *(requests or (one(),)), namespace="default", metadata={"uid": f"uid-{name}"}, status=status
    )
    return msgspec.convert(tree, ResourceClaim)


def test_every_refused_node_is_counted_under_its_first_reason() -> None:
    scene = Scene(2)
    scene.add(node("tainted", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}], cpu="0"))
    refused = scene.refusal(pod("p", resources={"requests": {"cpu": "5"}}))
    assert counts(refused) == {(NodeCode.TAINT, "k"): 1, (NodeCode.INSUFFICIENT, "cpu"): 2}
    assert refused.rules == {SchedulingRule.TAINT_TOLERATION, SchedulingRule.NODE_RESOURCES_FIT}


def test_a_cluster_without_nodes_says_so() -> None:
    assert Scene(0).refusal(pod("p")).why == Unschedulable(0)


def test_a_profile_can_leave_filters_out() -> None:
    scene = Scene(1)
    wanted = pod("p", nodeSelector={"zone": "x"})
    scene.refusal(wanted)
    assert scene.decide(wanted, profile=SchedulerProfile(disabled_filters=frozenset({"NodeAffinity"}))).node == "node-0"


def test_pods_spread_over_equal_nodes() -> None:
    scene = Scene(3)
    nodes = [scene.decide(pod(f"p{i}")).node for i in range(6)]
    assert sorted(nodes) == ["node-0", "node-0", "node-1", "node-1", "node-2", "node-2"]


def test_all_nodes_of_a_large_cluster_get_their_turn() -> None:
    scene = Scene(COMPARED * 2 + 10)
    nodes = {scene.decide(pod(f"p{i}")).node for i in range(COMPARED * 2 + 10)}
    assert len(nodes) > COMPARED


def test_devices_are_promised_on_the_chosen_node_and_not_twice() -> None:
    scene = Scene(2, devices=1)
    first, second = scene.decide(pod("p"), known_claim("a")), scene.decide(pod("q"), known_claim("b"))
    assert {first.node, second.node} == {"node-0", "node-1"}
    refused = scene.refusal(pod("r"), known_claim("c"))
    assert counts(refused) == {(NodeCode.CANNOT_ALLOCATE, ""): 2}
    assert refused.why.nearest is not None
    lacking = refused.why.nearest.lacking
    assert lacking is not None
    assert (lacking.claim, lacking.alternatives[0].lost_at.code) == ("default/c", StepCode.FREE)
    assert refused.rules == {SchedulingRule.DYNAMIC_RESOURCES}
    scene.devices.ledger.forget("uid-a")
    assert scene.decide(pod("r"), known_claim("c")).node == first.node


def test_an_allocated_claim_keeps_the_pod_to_its_node() -> None:
    scene = Scene(3, devices=1)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    held = known_claim("a", allocation={"nodeSelector": {"nodeSelectorTerms": [term]}})
    assert scene.decide(pod("p"), held).node == "node-1"
    elsewhere = pod("q", nodeSelector={"kubernetes.io/hostname": "node-0"})
    attempt = scene.attempt(elsewhere, held)
    refused = scene.placement.decide(attempt)
    assert isinstance(refused, Refused)
    assert counts(refused) == {(NodeCode.CLAIM_ELSEWHERE, "a"): 1, (NodeCode.NODE_AFFINITY, ""): 2}
    assert attempt.devices.elsewhere == [held]


def test_an_allocation_that_all_nodes_can_use_is_in_nobody_s_way() -> None:
    scene = Scene(2, devices=0)
    shared = known_claim("a", allocation={})
    attempt = scene.attempt(pod("p"), shared, known_claim("b"))
    refused = scene.placement.decide(attempt)
    assert isinstance(refused, Refused)
    assert counts(refused) == {(NodeCode.CANNOT_ALLOCATE, ""): 2}
    assert attempt.devices.elsewhere == []


def test_a_spread_pod_waits_for_a_domain_that_is_full() -> None:
    """The other host has no room left; crowding the first would break the constraint."""
    scene = Scene(1)
    scene.add(node("full", cpu="0"))
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }

    def wanted(name: str) -> Pod:
        resources = {"requests": {"cpu": "1"}}
        return pod(name, labels={"app": "x"}, topologySpreadConstraints=[constraint], resources=resources)

    assert scene.decide(wanted("p")).node == "node-0"
    refused = scene.refusal(wanted("q"))
    assert refused.rules == {SchedulingRule.NODE_RESOURCES_FIT, SchedulingRule.POD_TOPOLOGY_SPREAD}
    assert counts(refused)[NodeCode.SPREAD, "kubernetes.io/hostname"] == 1


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        ({}, "tainted"),
        ({"nodeTaintsPolicy": "Honor"}, ""),
        ({"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}, "elsewhere"),
    ],
    ids=["default", "taints", "affinity"],
)
def test_policies_of_a_constraint_say_which_nodes_count(policy: dict[str, str], counts: str) -> None:
    """A domain without pods to which the pod cannot go keeps it from the other domain, if it counts."""
    scene = Scene(0)
    scene.add(node("here", {"disk": "ssd"}))
    scene.add(node("tainted", {"disk": "ssd"}, taints=[{"key": "k", "effect": "NoSchedule"}]))
    if counts == "elsewhere":
        scene.add(node("elsewhere"))
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        **policy,
    }
    spec = {"labels": {"app": "x"}, "topologySpreadConstraints": [constraint], "nodeSelector": {"disk": "ssd"}}
    assert scene.decide(pod("p", **spec)).node == "here"
    if counts:
        assert "PodTopologySpread" in scene.refusal(pod("q", **spec)).rules
    else:
        assert scene.decide(pod("q", **spec)).node == "here"


def _model(name: str) -> str:
    return f'device.attributes["gpu.example.com"].model == "{name}"'


BIG_OR_ANY = {
    "name": "r",
    "firstAvailable": [{"name": "big", **one(_model("h100"))["exactly"]}, {"name": "any", **one()["exactly"]}],
}


def test_the_better_alternative_outweighs_an_emptier_node() -> None:
    scene = Scene(2, devices=4)  # the fourth device of a node is the larger model
    taken = scene.decide(pod("first"), known_claim("x", one(_model("h100"))))
    other = {"node-0": "node-1", "node-1": "node-0"}[taken.node]
    scene.table.place(pod("load", resources={"requests": {"cpu": "500m"}}), other)
    promise = scene.decide(pod("p"), known_claim("y", BIG_OR_ANY))
    assert promise.node == other
    assert promise.outcome is not None
    assert promise.outcome.alternatives == ((0,),)


@pytest.mark.parametrize(("percentage", "found"), [(0, True), (100, True), (1, False)])
def test_the_better_alternative_wins_among_all_nodes_unless_a_profile_wants_fewer(percentage: int, found: bool) -> None:
    """Two nodes of a large cluster have the larger model, as their fourth device, and are far from the first ones."""
    scene = Scene(COMPARED * 3, devices=1)
    for number in (COMPARED * 2, COMPARED * 3 - 1):
        for tree in slice_trees(number, 4, "uid"):
            scene.index.upsert_slice(msgspec.convert(tree, ResourceSlice))
    profile = SchedulerProfile(percentage_to_score=percentage)
    promise = scene.decide(pod("p"), known_claim("a", BIG_OR_ANY), profile=profile)
    assert promise.outcome is not None
    assert promise.outcome.alternatives == (((0,) if found else (1,)),)


def test_the_reason_told_is_that_of_the_node_where_the_pod_came_farthest() -> None:
    scene = Scene(2, devices=0)
    for number, devices in ((0, 1), (1, 4)):
        for tree in slice_trees(number, devices, "uid"):
            scene.index.upsert_slice(msgspec.convert(tree, ResourceSlice))
    wanted = known_claim("big", one(_model("h100")))  # the fourth device of a node is the larger model
    taken = scene.decide(pod("first"), known_claim("x", one(_model("h100"))))
    nearest = scene.refusal(pod("p"), wanted).why.nearest
    assert nearest is not None
    assert nearest.node == taken.node == "node-1"
    assert nearest.lacking is not None
    assert nearest.lacking.alternatives[0].lost_at.code is StepCode.FREE


@pytest.mark.parametrize(("model", "told"), [("h100", "node-1"), ("b200", "node-0")])
def test_the_reason_told_is_that_of_the_node_whose_unusable_pool_has_such_devices(model: str, told: str) -> None:
    scene = Scene(2, devices=0)
    for number, devices in ((0, 1), (1, 4)):
        for tree in slice_trees(number, devices, "uid"):
            tree["spec"]["pool"]["resourceSliceCount"] += number  # of the second pool, a slice is missing
            scene.index.upsert_slice(msgspec.convert(tree, ResourceSlice))
    nearest = scene.refusal(pod("p"), known_claim("big", one(_model(model)))).why.nearest
    assert nearest is not None
    assert nearest.node == told


def test_the_filter_timeout_is_a_budget_of_steps_for_each_node_and_one_for_all() -> None:
    scene = Scene(nodes=3, devices=1)
    wanted = msgspec.convert(objects.claim("c", request(), namespace="default"), ResourceClaim)
    for per_node, total in ((False, 12 * STEPS_PER_SECOND), (True, None)):
        profile = SchedulerProfile(filter_timeout=2.0, timeout_per_node=per_node)
        budget = scene.devices.budget(scene.attempt(pod("p", nodeSelector={}), wanted, profile=profile))
        assert (budget.node, budget.total) == (2 * STEPS_PER_SECOND, total)
    unlimited = SchedulerProfile(filter_timeout=0.0)
    assert scene.devices.budget(scene.attempt(pod("p"), wanted, profile=unlimited)) == UNLIMITED


def test_many_rules_about_many_pods_are_judged_in_short_parts() -> None:
    scene = Scene(20)
    scene.index.defers = True  # as that of a scheduler which shares its event loop
    for number in range(2000):
        scene.table.place(pod(f"q{number}", labels={"app": f"x{number}"}), node_name(number % 19))
    hostname = "kubernetes.io/hostname"
    terms = [{"topologyKey": hostname, "labelSelector": {"matchLabels": {"app": f"x{n}"}}} for n in range(100)]
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    attempt, parts, longest = scene.attempt(pod("p", affinity=rules)), 0, 0.0
    while True:
        began = time.thread_time()
        decision = scene.placement.decide(attempt)
        longest = max(longest, time.thread_time() - began)
        if not isinstance(decision, Unfinished):
            break
        parts += 1
    assert isinstance(decision, Promise)
    assert decision.node == node_name(19)
    assert parts > 0
    assert longest < 0.03  # all at once took 0.06 s


def test_packing_keeps_large_units_whole() -> None:
    """Of three nodes with two cards in two partitions each, the partly used node, root and card come first."""
    packs = SchedulerProfile(weights={"DevicePacking": 1})
    scene = Scene(3)
    for number in range(3):
        for piece in _cards(node_name(number)):
            scene.index.upsert_slice(piece)
    part = one("device.attributes['gpu.example.com'].half")
    nodes, cards = [], []
    for number in range(6):
        promise = scene.decide(pod(f"p{number}"), known_claim(f"c{number}", part), profile=packs)
        assert promise.outcome is not None
        nodes.append(promise.node)
        cards += [id_.device[:6] for id_ in promise.outcome.devices[0]]
    assert nodes[0] == nodes[1] == nodes[2] == nodes[3] != nodes[4] == nodes[5]
    assert cards[:4] == ["card-0", "card-0", "card-1", "card-1"]
    spread = Scene(3)
    for number in range(3):
        for piece in _cards(node_name(number)):
            spread.index.upsert_slice(piece)
    assert len({spread.decide(pod(f"p{n}"), known_claim(f"c{n}", part)).node for n in range(3)}) == 3


def _cards(node: str) -> list[ResourceSlice]:
    """Two cards on roots of their own, each in two halves."""
    halves = [
        {
            "name": f"card-{card}-{half}",
            "attributes": {"half": {"bool": True}, "resource.kubernetes.io/pcieRoot": {"string": f"pci{card}"}},
            "consumesCounters": [{"counterSet": f"card-{card}", "counters": {"memory": {"value": "1"}}}],
        }
        for card in range(2)
        for half in range(2)
    ]
    sets = [{"name": f"card-{card}", "counters": {"memory": {"value": "2"}}} for card in range(2)]
    pool = {"node": node, "pool": node, "driver": "gpu.example.com", "count": 2}
    trees = [
        objects.resource_slice(f"{node}-counters", sharedCounters=sets, **pool),
        objects.resource_slice(f"{node}-cards", *halves, **pool),
    ]
    return [msgspec.convert(tree, ResourceSlice) for tree in trees]
