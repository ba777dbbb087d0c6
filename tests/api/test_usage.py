"""What objects count against quotas, alone and together."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.quantity import Quantity
from dray.api.resources import BY_NAME, BY_TYPE, Resource
from dray.api.types.core import ConfigMap, Pod, ResourceQuota, Service
from dray.api.types.resource import ResourceClaim
from dray.api.usage import devices, in_scope, names_for, resource_of, total, unspecified, usage_of
from dray.api.wire import Wire
from tests import objects

PODS = BY_TYPE[Pod]


def pod_in(phase: str = "Running", **spec: Any) -> Pod:
    return msgspec.convert(objects.pod(status={"phase": phase}, **{"containers": [], **spec}), Pod)


def container(name: str = "c", restart: str = "", limits: Any = None, **requests: str) -> dict[str, Any]:
    found = {"name": name, "resources": {"requests": requests, "limits": limits or {}}}
    return {**found, "restartPolicy": restart} if restart else found


def texts(usage: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage.items()}


def claim_for(*requests: dict[str, Any]) -> ResourceClaim:
    return msgspec.convert(objects.claim(requests=list(requests)), ResourceClaim)


def quota(**hard: str) -> ResourceQuota:
    named = {name.replace("__", "/").replace("_", "."): amount for name, amount in hard.items()}
    return msgspec.convert({"spec": {"hard": named}}, ResourceQuota)


def test_objects_count_by_name_and_by_group() -> None:
    config_maps, deployments = BY_TYPE[ConfigMap], BY_NAME["apps", "deployments"]
    assert texts(usage_of(config_maps, ConfigMap())) == {"configmaps": "1", "count/configmaps": "1"}
    assert texts(usage_of(deployments, deployments.type())) == {"count/deployments.apps": "1"}


def test_what_is_not_kept_counts_for_nothing() -> None:
    assert resource_of("count/bindings") is None
    assert resource_of("count/pods") is PODS


def test_pod_needs_the_larger_of_starting_and_running() -> None:
    running = [container("a", cpu="1", memory="1Gi"), container("b", cpu="500m")]
    assert texts(usage_of(PODS, pod_in(containers=running)))["requests.cpu"] == "1500m"
    starting = [container("i", cpu="4")]
    assert texts(usage_of(PODS, pod_in(containers=running, initContainers=starting)))["cpu"] == "4"
    sidecar = [container("s", "Always", cpu="1"), container("i", cpu="2")]
    assert texts(usage_of(PODS, pod_in(containers=running, initContainers=sidecar)))["cpu"] == "3"
    assert texts(usage_of(PODS, pod_in(containers=running, initContainers=list(reversed(sidecar)))))["cpu"] == "2500m"


def test_overhead_and_pod_level_requests() -> None:
    used = texts(usage_of(PODS, pod_in(containers=[container(cpu="1")], overhead={"cpu": "100m"})))
    assert used["requests.cpu"] == "1100m"
    used = texts(usage_of(PODS, pod_in(containers=[container(cpu="1")], resources={"requests": {"cpu": "3"}})))
    assert used["requests.cpu"] == "3"


def test_extended_resources_count_as_requests_only() -> None:
    used = texts(usage_of(PODS, pod_in(containers=[container(**{"example.com/gpu": "2"})])))
    assert used["requests.example.com/gpu"] == "2"
    assert "example.com/gpu" not in used


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pod_counts_as_an_object_only(phase: str) -> None:
    assert texts(usage_of(PODS, pod_in(phase, containers=[container(cpu="1")]))) == {"count/pods": "1"}


def test_services_count_ports_and_balancers() -> None:
    tree = {"spec": {"type": "LoadBalancer", "ports": [{"port": 1}, {"port": 2}]}}
    used = texts(usage_of(BY_TYPE[Service], msgspec.convert(tree, Service)))
    assert used == {"services": "1", "count/services": "1", "services.nodeports": "2", "services.loadbalancers": "1"}


def test_a_balancer_that_takes_no_node_ports_counts_those_it_names() -> None:
    ports = [{"port": 1}, {"port": 2, "nodePort": 30000}]
    tree = {"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": ports}}
    assert texts(usage_of(BY_TYPE[Service], msgspec.convert(tree, Service)))["services.nodeports"] == "1"


requests = st.builds(
    lambda name, count, everything: {
        "deviceClassName": name,
        **({"allocationMode": "All"} if everything else {"allocationMode": "ExactCount", "count": count}),
    },
    st.sampled_from(["a", "b", "c"]),
    st.integers(1, 10),
    st.booleans(),
)


@given(st.lists(requests, max_size=6))
def test_exact_requests_add_up(parts: list[dict[str, Any]]) -> None:
    expected: dict[str, int] = {}
    for part in parts:
        expected[part["deviceClassName"]] = expected.get(part["deviceClassName"], 0) + part.get("count", 32)
    assert devices(claim_for(*({"name": "r", "exactly": part} for part in parts))) == expected


@given(st.lists(requests, min_size=1, max_size=8))
def test_alternatives_count_their_largest_by_class(parts: list[dict[str, Any]]) -> None:
    found = devices(claim_for({"name": "r", "firstAvailable": [{"name": "s", **part} for part in parts]}))
    for part in parts:
        assert found[part["deviceClassName"]] >= part.get("count", 32)
    assert all(any(part.get("count", 32) == amount for part in parts) for amount in found.values())


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("pods", ("", "pods")),
        ("requests.cpu", ("", "pods")),
        ("memory", ("", "pods")),
        ("requests.nvidia.com/gpu", ("", "pods")),
        ("services.nodeports", ("", "services")),
        ("count/resourceclaims.resource.k8s.io", ("resource.k8s.io", "resourceclaims")),
        ("count/pods", ("", "pods")),
        ("x.y.deviceclass.resource.k8s.io/devices", ("resource.k8s.io", "resourceclaims")),
        ("count/widgets.example.com", None),
        ("persistentvolumeclaims", ("", "persistentvolumeclaims")),
        ("requests.storage", ("", "persistentvolumeclaims")),
        ("fast.storageclass.storage.k8s.io/requests.storage", ("", "persistentvolumeclaims")),
    ],
)
def test_whose_objects_count(name: str, resource: tuple[str, str] | None) -> None:
    assert resource_of(name) is (BY_NAME[resource] if resource else None)


def test_total_adds_what_is_there() -> None:
    objects: dict[Resource, list[Wire]] = {
        PODS: [pod_in(containers=[container(cpu="1")]), pod_in("Failed", containers=[container(cpu="5")])],
        BY_TYPE[ConfigMap]: [ConfigMap(), ConfigMap()],
    }
    asked: list[Resource] = []

    def listed(resource: Resource) -> list[Wire]:
        asked.append(resource)
        return objects[resource]

    counted = total(quota(pods="9", count__pods="9", cpu="9", configmaps="9", widgets="1"), listed)
    assert texts(counted) == {"pods": "1", "count/pods": "2", "cpu": "1", "configmaps": "2"}
    assert len(asked) == 2
    assert set(asked) == {PODS, BY_TYPE[ConfigMap]}


def test_names_of_a_resource() -> None:
    hard = {"pods": "1", "cpu": "1", "configmaps": "1"}
    assert names_for(PODS, hard) == ["pods", "cpu"]


def test_scopes_select_pods_only() -> None:
    scoped = msgspec.convert({"spec": {"hard": {"pods": "1"}, "scopes": ["Terminating"]}}, ResourceQuota)
    assert in_scope(scoped, pod_in(activeDeadlineSeconds=5))
    assert not in_scope(scoped, pod_in())
    assert not in_scope(scoped, ConfigMap())
    assert in_scope(quota(pods="1"), ConfigMap())
    foreign = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k", "namespaces": ["x"]}]}
    }
    crossing = msgspec.convert({"spec": {"scopes": ["CrossNamespacePodAffinity"]}}, ResourceQuota)
    assert in_scope(crossing, pod_in(affinity=foreign))
    assert not in_scope(crossing, pod_in())


def test_what_containers_leave_unsaid() -> None:
    silent = pod_in(containers=[container("a", cpu="1"), container("b", limits={"cpu": "1"})])
    assert unspecified(silent, ["cpu", "limits.cpu", "pods", "requests.memory"]) == {
        "cpu": ["b"],
        "limits.cpu": ["a"],
        "requests.memory": ["a", "b"],
    }
    assert unspecified(pod_in(containers=[container("a")], resources={"requests": {"cpu": "1"}}), ["cpu"]) == {}
