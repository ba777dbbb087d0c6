"""A driver as it is shipped: a chart with a definition, rights, a class and a DaemonSet, installed by the real Helm."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.testing import Cluster
from tests.waiting import SECONDS, wait_until

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / ".venv/programs"
CHART = Path(__file__).parents[1] / "data/chart"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "user"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "x",
                "command": ["sleep", "1000"],
                "resources": {"limits": {"example.com/gpu": "2"}},
            }
        ],
    },
}

pytestmark = pytest.mark.skipif(
    not (PROGRAMS / "helm").exists() or shutil.which("bwrap") is None, reason="needs Helm and bubblewrap"
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(agents=1, runtime="bwrap") as made:
        yield made


def run(cluster: Cluster, program: str, *words: str) -> str:
    command = [str(PROGRAMS / program), f"--kubeconfig={cluster.kubeconfig}", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_driver_is_installed_serves_a_pod_is_upgraded_and_goes_without_a_trace(cluster: Cluster, hasty: None) -> None:
    values = f"python={sys.executable},code={ROOT}"
    run(cluster, "helm", "install", "driver", str(CHART), "--set", values)
    run(cluster, "kubectl", "rollout", "status", "daemonset/gpu-driver", f"--timeout={SECONDS}s")
    wait_until(lambda: published(cluster) == 4)
    assert "exclusive" in run(cluster, "kubectl", "get", "gpuconfigs", "c", "-o", "jsonpath={.spec.sharing}")

    cluster.apply(POD)
    run(cluster, "kubectl", "wait", "--for=condition=Ready", "pod/user", f"--timeout={SECONDS}s")
    variables = run(cluster, "kubectl", "exec", "user", "--", "env").splitlines()
    assert len([line for line in variables if line.startswith("GPU_DEVICE_")]) == 2

    run(cluster, "helm", "upgrade", "driver", str(CHART), "--set", f"{values},devices=6")
    run(cluster, "kubectl", "rollout", "status", "daemonset/gpu-driver", f"--timeout={SECONDS}s")
    wait_until(lambda: published(cluster) == 6)

    run(cluster, "kubectl", "delete", "pod", "user")
    wait_until(lambda: not cluster.list("resourceclaims"))
    run(cluster, "helm", "uninstall", "driver")
    wait_until(lambda: not cluster.list("pods") and not cluster.list("resourceslices"))
    assert not cluster.list("daemonsets")
    assert not cluster.list("deviceclasses")


def published(cluster: Cluster) -> int:
    """How many devices the driver publishes."""
    slices = json.loads(run(cluster, "kubectl", "get", "resourceslices", "-o", "json"))["items"]
    return sum(len(one["spec"].get("devices", ())) for one in slices)
