"""The stories of KEP-5677, word for word, with a driver name that exists; and what its test plan asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.running import Dray
from tests.waiting import SECONDS, wait_until

KUBECTL = shutil.which("kubectl")
DRIVER = "gpu.example.com"

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on PATH")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A whole cluster with simulated nodes."""
    directory = tmp_path_factory.mktemp("dray")
    options = ("--store", "memory", "--nodes", "3", "--devices", "4", "--feature-gates", "DRAResourcePoolStatus=true")
    with Dray("up", "--dir", directory, "--port", "0", *options):
        yield directory


def shell(cluster: Path, script: str, *, fails: bool = False) -> str:
    """What a shell script prints, on both streams."""
    environment = {**os.environ, "KUBECONFIG": str(cluster / "kubeconfig"), "HOME": str(cluster)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=2 * SECONDS,
        check=False,
    )
    assert (done.returncode != 0) is fails, done.stdout
    return done.stdout


def test_story_1_an_administrator_checks_all_pools(cluster: Path) -> None:
    said = shell(
        cluster,
        f"""
kubectl create -f - <<EOF
apiVersion: resource.k8s.io/v1alpha1
kind: ResourcePoolStatusRequest
metadata:
  name: check-gpus-1707300000
spec:
  driver: {DRIVER}
EOF
kubectl wait --for=condition=Complete rpsr/check-gpus-1707300000 --timeout=60s
""",
    )
    assert said.splitlines() == [
        "resourcepoolstatusrequest.resource.k8s.io/check-gpus-1707300000 created",
        "resourcepoolstatusrequest.resource.k8s.io/check-gpus-1707300000 condition met",
    ]
    old = shell(
        cluster, "kubectl get resourcepoolstatusrequests.v1alpha1.resource.k8s.io/check-gpus-1707300000 -o yaml"
    )
    status = yaml.safe_load(old)["status"]
    assert status["pools"][1] == {
        "driver": DRIVER,
        "poolName": "node-1",
        "nodeName": "node-1",
        "totalDevices": 4,
        "allocatedDevices": 0,
        "availableDevices": 4,
        "unavailableDevices": 0,
        "sliceCount": 1,
        "generation": 1,
    }
    assert [pool["poolName"] for pool in status["pools"]] == ["node-0", "node-1", "node-2"]
    assert status["totalMatchingPools"] == 3
    [condition] = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Complete", "True", "CalculationComplete")
    today = yaml.safe_load(shell(cluster, "kubectl get rpsr/check-gpus-1707300000 -o yaml"))
    assert today["apiVersion"] == "resource.k8s.io/v1alpha3"
    assert today["status"]["pools"][1]["resourceSliceCount"] == 1
    table = shell(cluster, "kubectl get rpsr").splitlines()
    assert table[0].split()[:4] == ["NAME", "DRIVER", "TOTAL", "AVAILABLE"]
    assert table[1].split()[1:9] == [DRIVER, "12", "12", "0", "0", "0", "3", "Complete"]
    assert "deleted" in shell(cluster, "kubectl delete rpsr/check-gpus-1707300000")
    assert "not found" in shell(cluster, "kubectl get rpsr/check-gpus-1707300000", fails=True)


def test_story_2_a_developer_looks_for_free_devices(cluster: Path) -> None:
    said = shell(
        cluster,
        f"""
kubectl create -f - <<EOF && kubectl wait --for=condition=Complete rpsr/debug-check --timeout=60s && \\
  kubectl get rpsr/debug-check -o jsonpath='{{.status.pools[*]}}'
apiVersion: resource.k8s.io/v1alpha1
kind: ResourcePoolStatusRequest
metadata:
  name: debug-check
spec:
  driver: {DRIVER}
EOF
""",
    )
    assert said.count('"availableDevices":4') == 3


def test_story_3_a_program_watches_availability(cluster: Path) -> None:
    # bc is not everywhere, and $((…)) adds as well.
    said = shell(
        cluster,
        f"""
REQUEST_NAME="monitor-$(date +%s)"
DRIVER="{DRIVER}"

kubectl create -f - <<EOF
apiVersion: resource.k8s.io/v1alpha1
kind: ResourcePoolStatusRequest
metadata:
  name: $REQUEST_NAME
spec:
  driver: $DRIVER
EOF

kubectl wait --for=condition=Complete rpsr/$REQUEST_NAME --timeout=60s
AVAILABLE=$(($(kubectl get rpsr/$REQUEST_NAME -o jsonpath='{{.status.pools[*].availableDevices}}' | tr ' ' '+')))

if [ "$AVAILABLE" -lt 500 ]; then
  echo "ALERT: Only $AVAILABLE devices available cluster-wide"
fi

kubectl delete rpsr/$REQUEST_NAME
""",
    )
    assert "ALERT: Only 12 devices available cluster-wide" in said


def available(cluster: Path, name: str) -> int:
    manifest = (
        f'{{"apiVersion":"resource.k8s.io/v1alpha3","kind":"ResourcePoolStatusRequest",'
        f'"metadata":{{"name":"{name}"}},"spec":{{"driver":"{DRIVER}"}}}}'
    )
    shell(
        cluster,
        f"kubectl create -f - <<< '{manifest}'; kubectl wait --for=condition=Complete rpsr/{name} --timeout=60s",
    )
    numbers = shell(cluster, f"kubectl get rpsr/{name} -o jsonpath='{{.status.pools[*].availableDevices}}'")
    return sum(map(int, numbers.split()))


POD = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: two}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com, count: 2}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: c, image: app, resources: {claims: [{name: two}]}}]
  resourceClaims: [{name: two, resourceClaimName: two}]
"""


def test_claims_change_the_numbers_of_the_next_request_only(cluster: Path) -> None:
    before = available(cluster, "before")
    shell(cluster, f"kubectl create -f - <<'EOF'\n{POD}\nEOF")
    shell(cluster, "kubectl wait pod/user --for=condition=PodScheduled --timeout=60s")
    # The controller's copy of the claims may be a moment behind.
    wait_until(lambda: available(cluster, f"after-{time.monotonic_ns()}") == before - 2)
    assert available(cluster, "again") == before - 2
    numbers = shell(cluster, "kubectl get rpsr/before -o jsonpath='{.status.pools[*].availableDevices}'")
    assert sum(map(int, numbers.split())) == before
    shell(cluster, "kubectl delete rpsr/again")
    shell(cluster, "kubectl delete pod/user resourceclaim/two --wait=true")


def test_a_request_without_driver_is_refused(cluster: Path) -> None:
    manifest = '{"apiVersion":"resource.k8s.io/v1alpha1","kind":"ResourcePoolStatusRequest","metadata":{"name":"x"},"spec":{"limit":5}}'
    assert "spec.driver" in shell(cluster, f"kubectl create --validate=false -f - <<< '{manifest}'", fails=True)
