"""The chart, rendered by real Helm and installed on a node agent: its parts run in pods, from the image, with their roles."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.image import __main__ as image
from tools.image.debian import ImageError

from dray.testing import Cluster
from tests.charts.installing import PROGRAMS, run
from tests.deploy.roles import CHART
from tests.e2e.objects import pod
from tests.waiting import wait_until

NEEDED = (PROGRAMS / "helm", shutil.which("bwrap"), shutil.which("dpkg-deb"))
pytestmark = pytest.mark.skipif(
    not all(map(str, NEEDED)) or not (PROGRAMS / "helm").exists(), reason="needs Helm, bubblewrap and Debian's tools"
)
ROOT = Path(__file__).parents[2]
NAMESPACE = "dray-system"
VALUES = {
    "nodeSelector.kubernetes\\.io/hostname": "agent-0",  # the others run nothing
    "scheduler.lease.duration": "3s",
    "scheduler.lease.renewDeadline": "2s",
    "scheduler.lease.retryPeriod": "500ms",
    "shadow.enabled": "true",
    "simulatedNodes.enabled": "true",
    "simulatedNodes.count": "1",
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the image."""
    directory = tmp_path_factory.mktemp("images")
    try:
        image.build(directory / "dray", ROOT / "build/image-cache", compression=1)
    except ImageError as error:
        pytest.skip(f"the image cannot be built here: {error}")
    return directory


@pytest.fixture(scope="module")
def cluster(images: Path) -> Iterator[Cluster]:
    with Cluster(nodes=2, devices=2, agents=1, runtime="bwrap", images=(images,), pod_addresses="127.64.0.0/10") as c:
        yield c


def install(cluster: Cluster) -> None:
    values = [f"--set={name}={value}" for name, value in VALUES.items()]
    run(cluster, "helm", "install", "dray", str(CHART), "-n", NAMESPACE, "--create-namespace", *values)


def ready(cluster: Cluster) -> bool:
    found = {one["metadata"]["name"]: one["status"] for one in cluster.list("deployments", NAMESPACE)}
    parts = {name.removeprefix("dray-"): status.get("readyReplicas") for name, status in found.items()}
    return parts == {"scheduler": 2, "shadow": 1, "simulated-nodes": 1}


def leader(cluster: Cluster) -> str:
    return str(cluster.get("leases", "dray-scheduler", NAMESPACE)["spec"]["holderIdentity"])


def test_skopeo_reads_the_image(images: Path) -> None:
    if shutil.which("skopeo") is None:
        pytest.skip("needs skopeo")
    command = ["skopeo", "inspect", f"oci:{images / 'dray'}"]
    assert '"Os": "linux"' in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_all_parts_run_in_pods_and_the_scheduler_survives_the_kill_of_its_leader(cluster: Cluster) -> None:
    install(cluster)
    wait_until(lambda: ready(cluster))
    cluster.apply(pod("first", schedulerName="dray-scheduler"))
    cluster.wait("pods", "first", lambda tree: bool(tree["spec"].get("nodeName")))
    killed = leader(cluster)
    cluster.delete("pods", killed.split("_")[0], NAMESPACE, grace=0)
    cluster.apply(pod("second", schedulerName="dray-scheduler"))
    cluster.wait("pods", "second", lambda tree: bool(tree["spec"].get("nodeName")))
    assert leader(cluster) != killed
