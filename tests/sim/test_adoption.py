"""Nodes that somebody made by hand, played by simulated nodes; and Jobs that end there."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from dray.testing import Cluster
from tests import objects
from tests.cli.running import DRAY
from tests.waiting import wait_until

CAPACITY = {"cpu": "3", "memory": "5Gi", "pods": "10"}
CONTAINERS = [{"name": "c", "image": "x"}]


def labelled_node(name: str, **labels: str) -> dict[str, Any]:
    return objects.node(name, labels=labels, allocatable=CAPACITY)


def pod_on(name: str, on: str) -> dict[str, Any]:
    return objects.pod(name, nodeSelector={"kubernetes.io/hostname": on})


def ready(cluster: Cluster, name: str) -> Any:
    conditions = cluster.get("nodes", name)["status"].get("conditions", [])
    return next((c["status"] for c in conditions if c["type"] == "Ready"), "")


def phase(cluster: Cluster, name: str) -> Any:
    return cluster.get("pods", name)["status"].get("phase")


def test_a_node_made_by_hand_lives_and_runs_pods_once_its_labels_match() -> None:
    with Cluster(adopt_nodes="rack=7", nodes=1) as cluster:
        cluster.apply(labelled_node("own", rack="7", **{"kubernetes.io/hostname": "own"}))
        cluster.apply(labelled_node("other", rack="8", **{"kubernetes.io/hostname": "other"}))
        wait_until(lambda: ready(cluster, "own") == "True")
        for name, on in (("mine", "own"), ("theirs", "other")):
            cluster.apply(pod_on(name, on))
        wait_until(lambda: phase(cluster, "mine") == "Running")
        wait_until(lambda: cluster.get("pods", "theirs")["spec"].get("nodeName") == "other")
        assert phase(cluster, "theirs") == "Pending"  # nobody plays its node
        assert cluster.get("nodes", "own")["status"]["capacity"] == CAPACITY
        assert cluster.get("leases", "own", "kube-node-lease")["spec"]["holderIdentity"] == "own"
        cluster.apply(labelled_node("other", rack="7", **{"kubernetes.io/hostname": "other"}))
        wait_until(lambda: phase(cluster, "theirs") == "Running")


def test_a_node_that_answers_somewhere_is_real_and_not_adopted() -> None:
    real = labelled_node("real", rack="7")
    real["status"] |= {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}
    with Cluster(adopt_nodes="rack=7") as cluster:
        cluster.apply(real)
        cluster.apply(labelled_node("own", rack="7", **{"kubernetes.io/hostname": "own"}))
        cluster.apply(pod_on("p", "own"))
        wait_until(lambda: phase(cluster, "p") == "Running")
        assert ready(cluster, "real") == ""


def test_an_agent_runs_its_own_pods() -> None:
    with Cluster(adopt_nodes="kubernetes.io/os=linux", agents=1, runtime="fake") as cluster:
        cluster.apply(pod_on("p", "agent-0"))
        wait_until(lambda: phase(cluster, "p") == "Running")
        assert cluster.get("pods", "p")["status"]["containerStatuses"][0]["containerID"].startswith("fake://")


@pytest.mark.parametrize(("seconds", "ends"), [("0.2", True), ("inf", False)])
def test_jobs_end_after_the_time_that_is_stated(seconds: str, ends: bool) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"completions": 2, "template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}},
    }
    with Cluster(nodes=1, job_seconds=float(seconds)) as cluster:
        cluster.apply(job)
        cluster.apply(pod_on("stays", "node-0"))
        wait_until(lambda: phase(cluster, "stays") == "Running")
        if ends:
            wait_until(lambda: cluster.get("jobs", "j")["status"].get("succeeded") == 2)
        else:
            wait_until(lambda: cluster.get("jobs", "j")["status"].get("ready") == 1)
            assert not cluster.get("jobs", "j")["status"].get("succeeded")
        assert phase(cluster, "stays") == "Running"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [("--adopt-nodes", "a in", "--adopt-nodes a in"), ("--job-seconds", "-1", "--job-seconds: expected a number")],
)
def test_options_that_make_no_sense_are_named(option: str, value: str, text: str, tmp_path: Any) -> None:

    command = [*DRAY, "up", "--dir", str(tmp_path), "--port", "0", f"{option}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode != 0, text in done.stderr) == (True, True), done.stderr
