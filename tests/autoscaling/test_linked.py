"""Pods that depend on other nodes: on the pods there, or on devices that nodes share."""

from __future__ import annotations

from typing import Any

from dray.api.reasons.autoscaling import NoHelp
from dray.api.reasons.nodes import NodeCode
from dray.autoscaling.plans import ScaleUpPlan
from tests import objects
from tests.autoscaling.test_planner import alternatives, asked, claim, group, groups, network_slice, planned
from tests.sim.test_cluster import pod

ZONE = "topology.kubernetes.io/zone"
PORT = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "port"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "net.example.com"'}}]},
}
APP = {"matchLabels": {"app": "web"}}
SPREAD = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": APP}
    ]
}


def zone(name: str, price: float, devices: int = 0, **more: Any) -> dict[str, Any]:
    return group(name, devices, price, labels={ZONE: name}, **more)


def web(name: str, cpu: str = "8", claims: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    made = pod(name)
    made["metadata"]["labels"] = {"app": "web"}
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    made["spec"] |= {"resourceClaims": [{"name": one, "resourceClaimName": one} for one in claims], **spec}
    return made


def near(kind: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def node_in(zone: str, cpu: str) -> dict[str, Any]:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    room = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
    return objects.node(f"old-{zone}", labels={ZONE: zone}, allocatable=room, status=ready)


def devices(found: ScaleUpPlan) -> list[str]:
    return sorted(str(use.device) for one in found.nodes for pod in one.pods for use in pod.devices)


def test_pods_that_are_spread_get_nodes_in_every_zone_that_there_is() -> None:
    pods = [web(f"p{number}", **SPREAD) for number in range(4)]
    found = planned(groups(zone("a", 1), zone("b", 2)), node_in("b", "0"), *pods)
    assert found.increases == {"a": 2, "b": 2}
    assert found.check is not None
    assert not found.check.waiting


def test_where_spreading_keeps_a_pod_out_no_node_is_bought_in_vain() -> None:
    pods = [web(f"p{number}", **SPREAD) for number in range(3)]
    found = planned(groups(zone("a", 1)), node_in("b", "0"), *pods)
    assert found.increases == {"a": 1}
    (left,) = found.unhelped
    assert left.pods == ("default/p1", "default/p2")
    assert left.refusals[0].verdict is not None
    assert [reason.code for reason in left.refusals[0].verdict.reasons] == [NodeCode.SPREAD]


def test_a_new_node_in_one_zone_makes_room_in_another() -> None:
    pods = [web(f"p{number}", **SPREAD) for number in range(3)]
    found = planned(groups(zone("a", 1), zone("b", 2)), node_in("a", "32"), node_in("b", "0"), *pods)
    assert found.increases == {"b": 1}  # two of the pods go to the node in zone a
    assert found.proven


def test_a_pod_that_wants_to_be_near_another_gets_a_node_in_its_zone() -> None:
    database = {**web("db", "1", nodeName="old-a")}
    database["metadata"]["labels"] = {"app": "db"}
    found = planned(
        groups(zone("a", 2), zone("b", 1)), node_in("a", "1"), database, web("p", **near("podAffinity", "db"))
    )
    assert found.increases == {"a": 1}
    assert found.useless == ("b",)


def test_pods_that_keep_apart_get_nodes_in_different_zones() -> None:
    pods = [web(f"p{number}", "1", **near("podAntiAffinity", "web")) for number in range(2)]
    assert planned(groups(zone("a", 1), zone("b", 2)), *pods).increases == {"a": 1, "b": 1}


def test_a_pod_that_another_one_keeps_out_of_its_zone_gets_a_node_elsewhere() -> None:
    hermit = web("hermit", "1", nodeName="old-a", **near("podAntiAffinity", "web"))
    hermit["metadata"]["labels"] = {}
    found = planned(groups(zone("a", 1), zone("b", 2)), node_in("a", "1"), hermit, web("p"))
    assert found.increases == {"b": 1}


def test_where_devices_on_the_network_run_out_the_next_alternative_is_planned_for() -> None:
    ways = alternatives({"deviceClassName": "port"}, asked())
    claims = [claim(f"c{number}", ways) for number in range(3)]
    pods = [web(f"p{number}", "1", (f"c{number}",)) for number in range(3)]
    found = planned(groups(group("cpu", 0, 1), group("gpu", 1, 10)), PORT, network_slice(1), *claims, *pods)
    assert found.increases == {"gpu": 2}  # 20: one takes the port; with a node of cpu it would be 21
    assert not found.unhelped
    assert len({*devices(found)}) == 3


def test_a_pod_with_another_choice_leaves_the_device_on_the_network_to_one_without() -> None:
    either = claim("either", alternatives(asked(), {"deviceClassName": "port"}))
    port = claim("port", {"name": "r", "exactly": {"deviceClassName": "port"}})
    pods = [web("first", "8", ("either",)), web("second", "8", ("port",))]
    found = planned(groups(group("cpu", 0, 1), group("gpu", 1, 10)), PORT, network_slice(1), either, port, *pods)
    assert (found.increases, found.unhelped) == ({"cpu": 1, "gpu": 1}, ())


def test_each_device_on_the_network_goes_to_one_pod_of_the_plan() -> None:
    claims = [claim(f"c{number}", {"name": "r", "exactly": {"deviceClassName": "port"}}) for number in range(4)]
    pods = [web(f"p{number}", "8", (f"c{number}",)) for number in range(4)]
    found = planned(groups(group("cpu", 0, 1)), PORT, network_slice(3), *claims, *pods)
    assert found.increases == {"cpu": 3}
    assert len({*devices(found)}) == 3
    assert found.unhelped[0].refusals[0].code is NoHelp.NETWORK
    assert found.proven


def test_other_pods_use_the_room_on_nodes_that_linked_pods_get() -> None:
    pods = [web(f"p{number}", "5", **SPREAD) for number in range(2)]
    plain = pod("plain", gpus=0, containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "3"}}}])
    found = planned(groups(zone("a", 1), zone("b", 2)), node_in("b", "0"), *pods, plain)
    assert found.increases == {"a": 1, "b": 1}
    assert found.pods == {"default/p0", "default/p1", "default/plain"}


def test_many_pods_that_are_spread_get_nodes_for_all_of_them() -> None:
    pods = [web(f"p{number}", "2", **SPREAD) for number in range(60)]
    small, large = zone("a", 1, max=99), zone("b", 1.5, max=99, cpu=16)
    found = planned(groups(small, large), node_in("a", "0"), node_in("b", "0"), *pods)
    assert found.increases == {"a": 8, "b": 4}
    assert len(found.pods) == 60
