"""The shapes of charts in practice: installed, upgraded and uninstalled by the real Helm, on simulated nodes and on an agent.

Definitions first, hooks, a webhook with a certificate of its own, which an upgrade replaces, a DaemonSet with an init
container, and leader election between two pods.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from dray.testing import Cluster
from tests.charts.installing import CHARTS, PROGRAMS, run
from tests.ports import free_port
from tests.waiting import SECONDS, wait_until

pytestmark = pytest.mark.skipif(not (PROGRAMS / "helm").exists(), reason="needs Helm")
CHART = str(CHARTS / "shapes")
REFUSED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "refused", "labels": {"charts.example.com/refuse": "yes"}},
}
PLACES: dict[str, dict[str, Any]] = {
    "simulated": {"nodes": 1, "job_seconds": 0.1},
    "agent": {"agents": 1, "runtime": "bwrap"},
}


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    if request.param == "agent" and shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap")
    return str(request.param)


@pytest.fixture
def cluster(place: str) -> Iterator[Cluster]:
    with Cluster(**PLACES[place]) as made:
        yield made


@pytest.mark.slow
def test_all_shapes_are_installed_upgraded_and_uninstalled(cluster: Cluster, place: str) -> None:
    values = ["--set", f"global.python={sys.executable},webhook.port={free_port()}"]
    waiting = ["--wait", f"--timeout={int(SECONDS)}s"]
    run(cluster, "helm", "install", "shapes", CHART, *values, *waiting)
    assert shape(cluster) == {"corners": 4, "revision": "one"}
    assert finished(cluster) == {"pre-install", "post-install"}
    ready(cluster)
    authority = trusted(cluster)
    if place == "agent":
        assert "refused by revision one" in refusal(cluster)
        take_over(cluster)

    run(cluster, "helm", "upgrade", "shapes", CHART, *values, "--set=global.revision=two", *waiting)
    assert shape(cluster) == {"corners": 4, "revision": "two"}
    assert cluster.get("configmaps", "first")["data"] == {"revision": "two"}
    assert finished(cluster) == {"pre-install", "post-install", "pre-upgrade", "post-upgrade"}
    assert trusted(cluster) != authority
    wait_until(lambda: ready(cluster))
    if place == "agent":
        wait_until(lambda: "refused by revision two" in refusal(cluster))

    run(cluster, "helm", "uninstall", "shapes", *waiting)
    assert "pre-delete" in finished(cluster)
    assert not cluster.list("deployments")
    assert not cluster.list("daemonsets")
    wait_until(lambda: not [pod for pod in cluster.list("pods") if pod["metadata"].get("labels", {}).get("app")])
    assert run(cluster, "kubectl", "get", "shapes", "-o", "name") == ""  # Helm leaves definitions of crds/ alone
    cluster.apply(REFUSED)  # nobody is asked any more


def shape(cluster: Cluster) -> dict[str, Any]:
    told = run(cluster, "kubectl", "get", "shape", "square", "-o", "jsonpath={.spec.corners} {.spec.revision}").split()
    return {"corners": int(told[0]), "revision": told[1]}


def finished(cluster: Cluster) -> set[str]:
    """The hooks that have succeeded."""
    return {job["metadata"]["name"] for job in cluster.list("jobs") if job["status"].get("succeeded") == 1}


def ready(cluster: Cluster) -> bool:
    daemon = cluster.get("daemonsets", "daemon")["status"]
    deployments = {one["metadata"]["name"]: one["status"].get("readyReplicas") for one in cluster.list("deployments")}
    return daemon.get("numberReady") == 1 and deployments == {"leader": 2, "webhook": 1}


def trusted(cluster: Cluster) -> str:
    """The certificate authority by which the API server knows the webhook."""
    [hook] = cluster.get("validatingwebhookconfigurations", "webhook")["webhooks"]
    return str(hook["clientConfig"]["caBundle"])


def refusal(cluster: Cluster) -> str:
    """What kubectl is told about an object that the webhook refuses."""
    command = [str(PROGRAMS / "kubectl"), f"--kubeconfig={cluster.kubeconfig}", "create", "-f", "-"]
    return subprocess.run(command, input=json.dumps(REFUSED), capture_output=True, text=True, check=False).stderr


def take_over(cluster: Cluster) -> None:
    """Delete the pod that leads: the other one, or the one that replaces it, leads after that."""
    holder = wait_until(lambda: cluster.get("leases", "leader")["spec"].get("holderIdentity"))
    cluster.delete("pods", holder)
    wait_until(lambda: cluster.get("leases", "leader")["spec"]["holderIdentity"] != holder)
    wait_until(lambda: ready(cluster))
