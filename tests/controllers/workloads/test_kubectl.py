"""`kubectl rollout`, `scale` and `wait` on a cluster of its own, with the controllers as their own accounts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Dray
from tests.kubectl.conftest import KUBECTL, Kubectl

WITHIN = "--timeout=60s"
WORKLOADS = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: a, image: busybox}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: a, image: busybox}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  completions: 3
  parallelism: 2
  template:
    metadata: {annotations: {sim.dray.dev/seconds: "0.1"}}
    spec: {restartPolicy: Never, containers: [{name: a, image: busybox}]}
"""


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    with Dray("up", "--dir", tmp_path, "--port", "0", "--store", "memory", "--nodes", "2", "--devices", "0"):
        yield Kubectl(tmp_path / "kubeconfig", tmp_path, "default")


def test_rollouts_scaling_and_waiting_work(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WORKLOADS)
    kubectl("create", "deployment", "web", "--image=busybox", "--replicas=3")
    kubectl("rollout", "status", "deployment/web", WITHIN)
    kubectl("set", "image", "deployment/web", "busybox=busybox:2")
    kubectl("rollout", "status", "deployment/web", WITHIN)
    kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", WITHIN)
    image = kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    assert image == "busybox"
    history = kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["2", "3"]
    kubectl("scale", "deployment/web", "--replicas=5")
    kubectl("rollout", "status", "deployment/web", WITHIN)
    ready = kubectl("get", "pods", "-l", "app=web", "--field-selector", "status.phase=Running", "-o", "name")
    assert len(ready.splitlines()) >= 5
    kubectl("rollout", "status", "daemonset/agent", WITHIN)
    for owner in ("daemonset/agent", "statefulset/db"):
        container = kubectl("get", owner, "-o", "jsonpath={.spec.template.spec.containers[0].name}")
        before = kubectl("get", owner, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
        kubectl("set", "image", owner, f"{container}=other")
        kubectl("rollout", "status", owner, WITHIN)
        history = kubectl("rollout", "history", owner)
        assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
        kubectl("rollout", "undo", owner)
        kubectl("rollout", "status", owner, WITHIN)
        assert kubectl("get", owner, "-o", "jsonpath={.spec.template.spec.containers[0].image}") == before
    kubectl("wait", "--for=condition=complete", "job/work", WITHIN)
    events = kubectl("get", "events", "-o", "jsonpath={.items[*].source.component}").split()
    assert {"deployment-controller", "replicaset-controller", "daemonset-controller", "job-controller"} <= {*events}
