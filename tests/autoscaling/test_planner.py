"""What a plan contains: for whom nodes are added, of which group, and why some pods stay without."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.reasons.autoscaling import NoHelp
from dray.api.reasons.nodes import NodeCode
from dray.api.types.apps import DaemonSet
from dray.api.types.core import Node
from dray.autoscaling.groups import NodeGroups, read
from dray.autoscaling.planner import plan
from dray.autoscaling.plans import ScaleUpPlan
from dray.sim.cluster import Cluster
from dray.sim.hardware import CLASS, DRIVER
from tests import objects
from tests.sim.test_cluster import machines, pod, template

API = "resource.k8s.io/v1"


def group(name: str, devices: int = 2, price: float = 1.0, **more: Any) -> dict[str, Any]:
    attributes = {"model": {"string": name}}
    chips = [{"name": f"gpu-{number}", "attributes": attributes} for number in range(devices)]
    made = {
        "capacity": {"cpu": str(more.pop("cpu", 8)), "memory": "8Gi", "pods": "20"},
        "classes": [{"name": CLASS, "selector": f'device.driver == "{DRIVER}"'}],
        "pools": [{"driver": DRIVER, "devices": chips}] if chips else [],
    }
    return {"name": name, "template": made, "price": price, "max": 5, **more}


def groups(*written: dict[str, Any], **settings: Any) -> NodeGroups:
    return read(yaml.safe_dump({"groups": [*written], "settings": settings}))


def planned(found: NodeGroups, *objects: Any, **options: Any) -> ScaleUpPlan:
    templates = [template(count) for count in (1, 2, 3)]
    return plan(Cluster([*found.classes(()), *templates, *objects]), found, **options)


def claim(name: str, *requests: dict[str, Any], constraints: Any = ()) -> dict[str, Any]:
    return objects.claim(name, *requests, namespace="default", constraints=[*constraints])


def asked(count: int = 1, model: str = "", **more: Any) -> dict[str, Any]:
    expression = f'device.attributes["{DRIVER}"].model == "{model}"'
    selectors = [{"cel": {"expression": expression}}] if model else []
    return {"deviceClassName": CLASS, "count": count, "selectors": selectors, **more}


def alternatives(*ways: dict[str, Any]) -> dict[str, Any]:
    return {"name": "gpu", "firstAvailable": [{"name": f"way-{n}", **way} for n, way in enumerate(ways)]}


def test_pods_get_nodes_where_there_are_none_yet() -> None:
    found = planned(groups(group("a")), *(pod(f"p{n}") for n in range(3)))
    assert found.increases == {"a": 2}
    assert (found.price, found.proven, found.lower_bound) == (2.0, True, 2.0)
    assert [[one.pod for one in node.pods] for node in found.nodes] == [["default/p0", "default/p1"], ["default/p2"]]
    devices = [str(use.device) for node in found.nodes for one in node.pods for use in one.devices]
    assert devices == [f"{DRIVER}/a-new-1/gpu-0", f"{DRIVER}/a-new-1/gpu-1", f"{DRIVER}/a-new-2/gpu-0"]


def test_groups_are_weighed_together() -> None:
    """Two pods fill a large node, the third gets a small one; each group alone would cost more."""
    found = planned(groups(group("large", 4, 3.5), group("small", 1, 1.5)), pod("a", 2), pod("b", 2), pod("c", 1))
    assert found.increases == {"large": 1, "small": 1}
    assert found.price == 5.0


def test_nodes_that_there_are_come_first() -> None:
    found = planned(groups(group("a")), *machines(1, 2), pod("a", 2), pod("b", 2))
    assert found.increases == {"a": 1}


def test_nothing_waits_nothing_is_planned() -> None:
    found = planned(groups(group("a")), *machines(1, 2), pod("a", 2))
    assert (found.nodes, found.unhelped, found.price, found.proven) == ((), (), 0.0, True)


def test_pods_that_share_a_claim_go_to_one_node() -> None:
    shared = claim("shared", {"name": "gpu", "exactly": asked(1)})
    found = planned(groups(group("a", 1)), shared, pod("a", claim="shared"), pod("b", claim="shared"))
    assert [[one.pod for one in node.pods] for node in found.nodes] == [["default/a", "default/b"]]


def test_all_devices_are_those_of_the_new_node() -> None:
    everything = claim("all", {"name": "gpu", "exactly": {"deviceClassName": CLASS, "allocationMode": "All"}})
    found = planned(groups(group("a", 3)), everything, pod("a", claim="all"), pod("b", 1))
    assert [len(node.pods) for node in found.nodes] == [1, 1]


def test_pods_may_be_served_by_different_alternatives_on_one_node() -> None:
    written = group("a", 3)
    models = ("small", "small", "big")
    for chip, model in zip(written["template"]["pools"][0]["devices"], models, strict=True):
        chip["attributes"] = {"model": {"string": model}}
    claims = [claim(name, alternatives(asked(2, "small"), asked(1, "big"))) for name in ("one", "two")]
    found = planned(groups(written), *claims, pod("a", claim="one"), pod("b", claim="two"))
    assert (len(found.nodes), found.nodes[0].steps) == (1, 1)


def test_price_decides_among_alternatives_unless_a_step_down_costs_more() -> None:
    claims = claim("either", alternatives(asked(1, "fast"), asked(1, "slow")))
    written = group("fast", 1, 5.0), group("slow", 1, 2.0)
    cheap = planned(groups(*written), claims, pod("a", claim="either"))
    assert (cheap.increases, cheap.nodes[0].steps) == ({"slow": 1}, 1)
    still = planned(groups(*written, alternativePrice=2.9), claims, pod("a", claim="either"))
    assert (still.increases, still.price, still.cost) == ({"slow": 1}, 2.0, pytest.approx(4.9))
    dear = planned(groups(*written, alternativePrice=3.1), claims, pod("a", claim="either"))
    assert (dear.increases, dear.cost, dear.proven) == ({"fast": 1}, pytest.approx(5.0), True)


def test_ties_go_to_the_better_alternative_then_to_fewer_nodes_then_to_the_first_group() -> None:
    claims = claim("either", alternatives(asked(1, "fast"), asked(1, "slow")))
    better = planned(groups(group("slow", 1, 2.0), group("fast", 1, 2.0)), claims, pod("a", claim="either"))
    assert better.increases == {"fast": 1}
    fewer = planned(groups(group("small", 1, 1.0), group("large", 2, 2.0)), pod("a", 1), pod("b", 1))
    assert fewer.increases == {"large": 1}
    first = planned(groups(group("one", 1, 1.0), group("two", 1, 1.0)), pod("a", 1))
    assert first.increases == {"one": 1}


def test_expanders_change_what_is_small() -> None:
    written = group("large", 4, 1.0, cpu=32, priority=1), group("small", 1, 2.0, cpu=4, priority=9)
    chosen = {
        expander: planned(groups(*written, expander=expander), pod("a", 1)).increases
        for expander in ("price", "least-waste", "priority")
    }
    assert chosen == {"price": {"large": 1}, "least-waste": {"small": 1}, "priority": {"small": 1}}


def test_the_minimum_of_a_group_is_bought_anyway_and_used_first() -> None:
    found = planned(groups(group("a", 2, 9.0, min=1), group("b", 2, 1.0)), pod("a", 2), pod("b", 2))
    assert found.increases == {"a": 1, "b": 1}
    assert [node.for_minimum for node in found.nodes] == [True, False]


def test_limits_leave_pods_without_a_node_and_say_so() -> None:
    found = planned(
        groups(group("a", 1, max=3, available=1), group("b", 1, 2.0, max=1)), *(pod(f"p{n}") for n in range(4))
    )
    assert found.increases == {"a": 1, "b": 1}
    assert [one.pods for one in found.unhelped] == [("default/p2", "default/p3")]
    assert [why.code for why in found.unhelped[0].refusals] == [NoHelp.NO_ROOM, NoHelp.NO_ROOM]
    assert found.proven


def test_a_group_that_was_closed_gets_nothing() -> None:
    found = planned(groups(group("a", 1), group("b", 1, 9.0)), pod("a"), closed=["a"])
    assert found.increases == {"b": 1}
    alone = planned(groups(group("a", 1)), pod("a"), closed=["a"])
    assert alone.unhelped[0].refusals[0].code is NoHelp.CLOSED


def test_what_no_group_can_help_is_told_with_what_an_empty_node_says() -> None:
    found = planned(groups(group("a", 1), group("cpu", 0)), pod("many", 2), pod("one", 1))
    assert found.increases == {"a": 1}
    assert found.useless == ("cpu",)
    refusals = {why.group: why for why in found.unhelped[0].refusals}
    assert refusals["a"].code is NoHelp.REFUSED
    verdict = refusals["a"].verdict
    assert verdict is not None
    assert [reason.code for reason in verdict.reasons] == [NodeCode.CANNOT_ALLOCATE]


def test_taints_and_selectors_count_on_new_nodes() -> None:
    tainted = group("a", 1, taints=[{"key": "reserved", "effect": "NoSchedule"}])
    found = planned(groups(tainted, group("b", 1, 9.0)), pod("a"))
    assert found.increases == {"b": 1}
    tolerated = pod("a", tolerations=[{"key": "reserved", "operator": "Exists"}])
    assert planned(groups(tainted, group("b", 1, 9.0)), tolerated).increases == {"a": 1}


def test_a_pod_that_waits_for_something_else_gets_no_node() -> None:
    gated = pod("gated", schedulingGates=[{"name": "later"}])
    lost = pod("lost", claim="nowhere")
    found = planned(groups(group("a")), gated, lost)
    assert found.nodes == ()
    gates, problem = found.blocked
    assert (gates.pod, gates.gates) == ("default/gated", ("later",))
    assert problem.problem is not None
    assert (problem.pod, problem.problem.claim) == ("default/lost", "nowhere")


def network_slice(devices: int) -> dict[str, Any]:
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "net.example.com", "allNodes": True, "pool": pool}
    chips = [{"name": f"port-{n}"} for n in range(devices)]
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": "fabric"},
        "spec": {**spec, "devices": chips},
    }


def test_new_nodes_do_not_multiply_devices_on_the_network() -> None:
    kind = {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": "port"}}
    kind["spec"] = {"selectors": [{"cel": {"expression": 'device.driver == "net.example.com"'}}]}
    spec = {"spec": {"devices": {"requests": [{"name": "port", "exactly": {"deviceClassName": "port"}}]}}}
    made = {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "port", "namespace": "default"},
        "spec": spec,
    }
    pods = [pod(f"p{n}") for n in range(4)]
    for one in pods:
        one["spec"]["resourceClaims"] = [{"name": "port", "resourceClaimTemplateName": "port"}]
        one["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "8"
    found = planned(groups(group("cpu", 0)), kind, made, network_slice(3), *pods)
    assert found.increases == {"cpu": 3}
    assert found.lower_bound <= found.cost  # which is of the pods that can be served, not of all that wait
    assert found.proven
    assert [one.pods for one in found.unhelped] == [("default/p3",)]
    assert found.unhelped[0].refusals[0].code is NoHelp.NETWORK


def daemon_set(cpu: str, **spec: Any) -> DaemonSet:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    labels = {"matchLabels": {"app": "d"}}
    made = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container], **spec}}
    tree = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "default"}}
    found = object_of({**tree, "spec": {"selector": labels, "template": made}}, FeatureGates())
    assert isinstance(found, DaemonSet)
    return found


def test_daemons_take_their_part_of_new_nodes() -> None:
    pods = [pod(f"p{n}", 0) for n in range(8)]
    written = groups(group("cpu", 0))  # eight cpus; each pod takes one
    assert planned(written, *pods).increases == {"cpu": 1}
    assert planned(written, *pods, daemon_sets=[daemon_set("1")]).increases == {"cpu": 2}
    elsewhere = daemon_set("1", nodeSelector={"no": "where"})
    assert planned(written, *pods, daemon_sets=[elsewhere]).increases == {"cpu": 1}


def test_daemons_are_known_by_their_pods_where_nobody_knows_their_daemon_sets() -> None:
    there = pod("daemon", 0, nodeName="node-0")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    there["metadata"]["ownerReferences"] = [owner]
    waiting = [pod(f"p{n}", 0, nodeSelector={"dray.dev/node-group": "cpu"}) for n in range(8)]
    assert planned(groups(group("cpu", 0)), *machines(1), there, *waiting).increases == {"cpu": 2}


def test_equal_pods_are_served_in_their_order_the_most_important_first() -> None:
    late = pod("late", 1, priority=10)
    found = planned(groups(group("a", 1, max=2)), pod("first"), pod("second"), late)
    served = [one.pod for node in found.nodes for one in node.pods]
    assert (served, [one.pods for one in found.unhelped]) == (["default/late", "default/first"], [("default/second",)])


def test_of_equal_pods_the_oldest_is_served_first() -> None:
    pods = [pod("a"), pod("b")]
    for one, second in zip(pods, ("09", "01"), strict=True):
        one["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second}Z"
    found = planned(groups(group("a", 1, max=1)), *pods)
    assert [one.pod for node in found.nodes for one in node.pods] == ["default/b"]


def test_without_time_there_is_still_a_plan_and_a_bound_that_holds() -> None:
    pods = [pod(f"p{n}", 1 + n % 3) for n in range(30)]
    written = groups(group("a", 4, 4.1, max=30), group("b", 3, 3.2, max=30))
    hasty, patient = (planned(written, *pods, seconds=seconds) for seconds in (0.0, 20.0))
    assert sum(len(node.pods) for node in hasty.nodes) == 30
    assert 0 < hasty.lower_bound <= patient.price <= hasty.price


def test_the_scheduler_is_asked_what_it_makes_of_the_plan() -> None:
    found = planned(groups(group("a", 2)), pod("a", 2), pod("b", 1), pod("c", 1))
    assert found.check is not None
    assert found.check.placed + len(found.check.waiting) == 3


def test_the_cluster_stays_as_it_is() -> None:
    written = groups(group("a"))
    cluster = Cluster([*written.classes(()), template(1), *machines(1, 1), pod("a"), pod("b")])
    cluster.settle()
    before = [*cluster.waiting()], [one.metadata.name for one in cluster.all(Node)]
    assert plan(cluster, written).nodes
    assert ([*cluster.waiting()], [one.metadata.name for one in cluster.all(Node)]) == before


def test_the_claim_of_a_pod_group_keeps_its_pods_together() -> None:
    entry = {"name": "gpu", "resourceClaimName": "shared"}
    made = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
    }
    made["spec"] = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry]}
    pods = [pod(name, claim="shared", schedulingGroup={"podGroupName": "g"}) for name in ("a", "b")]
    for one in pods:
        one["spec"]["resourceClaims"] = [entry]
    found = groups(group("a", 1))
    gates = FeatureGates.parse("AllAlpha=true,AllBeta=true")
    cluster = Cluster(
        [*found.classes(()), claim("shared", {"name": "gpu", "exactly": asked(1)}), made, *pods], gates=gates
    )
    nodes = plan(cluster, found).nodes
    assert [[one.pod for one in node.pods] for node in nodes] == [["default/a", "default/b"]]


def test_where_there_is_not_room_for_all_the_important_come_first() -> None:
    important = pod("important", 2, priority=5)
    found = planned(groups(group("a", 2, max=1)), pod("a", 1), pod("b", 1), important)
    assert [one.pod for node in found.nodes for one in node.pods] == ["default/important"]
    many = [pod(f"p{number}", 1) for number in range(150)]  # too many for the exact search
    found = planned(groups(group("a", 2, max=2)), *many, important)
    assert "default/important" in [one.pod for node in found.nodes for one in node.pods]
