"""A webhook whose Service selects pods that nothing runs, in clusters that have no others and in clusters that do."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import ApiError
from dray.api.simulated import RUNS_NO_PODS
from dray.api.wire import Tree
from dray.testing import Cluster
from tests import objects
from tests.apiserver.admission.hooking import RULE
from tests.cli.running import DRAY
from tests.connecting import noted_connections
from tests.waiting import wait_until

WEBHOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "check.example.com"},
    "webhooks": [
        {
            "name": "check.example.com",
            "clientConfig": {"service": {"namespace": "default", "name": "hook"}},
            "rules": [RULE | {"resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "hook"},
    "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443}]},
}
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
OWN = {
    "simulated": ({"nodes": 1}, "node-0", "is simulated"),
    "fake": ({"agents": 1, "runtime": "fake"}, "agent-0", "has the runtime fake"),
    "adopted": ({"adopt_nodes": "rack=7"}, "own", "is simulated"),
}


def addresses(cluster: Cluster) -> list[str]:
    slices = cluster.list("endpointslices", "default")
    return [a for one in slices for e in one["endpoints"] or () if e["conditions"]["ready"] for a in e["addresses"]]


def hook_pod() -> Tree:
    return objects.pod("p", metadata={"labels": {"app": "hook"}})


@pytest.mark.parametrize("cidr", ["198.19.0.0/16", "10.77.0.0/16"])
@pytest.mark.parametrize(("options", "node", "why"), OWN.values(), ids=OWN.keys())
def test_no_review_is_sent_to_a_pod_that_nothing_runs(options: dict[str, Any], node: str, why: str, cidr: str) -> None:
    with noted_connections() as connections, Cluster(simulated_pod_cidr=cidr, **options) as cluster:
        if node == "own":
            cluster.apply(objects.node("own", labels={"rack": "7"}, allocatable={"cpu": "3", "pods": "10"}))
        cluster.apply(SERVICE)
        cluster.apply(hook_pod())
        [address] = wait_until(lambda: addresses(cluster))
        assert address.startswith(cidr.partition(".0.")[0] + ".")
        assert cluster.get("pods", "p")["status"]["podIP"] == address
        assert cluster.get("nodes", node)["metadata"]["annotations"][RUNS_NO_PODS]
        cluster.apply(WEBHOOK)
        with pytest.raises(ApiError) as refused:
            cluster.apply(MAP)
        assert f"nothing runs its pods (pod p: node {node} {why})" in str(refused.value)
        assert {*connections} <= {"127.0.0.1"}


def test_a_node_that_is_no_longer_played_loses_its_mark() -> None:
    with Cluster(adopt_nodes="rack=7") as cluster:
        cluster.apply(objects.node("own", labels={"rack": "7"}, allocatable={"cpu": "3", "pods": "10"}))

        def mark() -> Any:
            return cluster.get("nodes", "own")["metadata"].get("annotations", {}).get(RUNS_NO_PODS)

        wait_until(lambda: mark() == "simulated")
        cluster.patch("nodes", "own", {"metadata": {"labels": {"rack": "8"}}})
        wait_until(lambda: mark() is None)


@pytest.mark.parametrize("command", [["up"], ["node", "--name", "n", "--root", "r", "--runtime", "fake"]])
def test_a_range_that_is_none_is_named(command: list[str], tmp_path: Path) -> None:
    asked = [*DRAY, *command, "--simulated-pod-cidr", "10.0.0.1/16"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode != 0
    assert "--simulated-pod-cidr: expected a network in CIDR form, such as 198.19.0.0/16" in done.stderr
    assert "10.0.0.1/16 has host bits set" in done.stderr
