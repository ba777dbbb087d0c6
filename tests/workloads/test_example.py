"""The example of KEP-5729, applied with the real kubectl: as it is printed there, and in today's form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Dray
from tests.kubectl.conftest import KUBECTL, Kubectl
from tests.waiting import wait_until

DATA = Path(__file__).parents[1] / "data"
GATES = "GenericWorkload=true,WorkloadPodGroupResourceClaimTemplate=true"
CLASS = '{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "example"}, "spec": {}}'
DEPLOYMENTS = {"wl-claim-example-1": "my-podgroup-1", "wl-claim-example-2": "my-podgroup-2"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("dray")
    options = ("--port", "0", "--store", "memory", "--nodes", "3", "--devices", "4", "--feature-gates", GATES)
    with Dray("up", "--dir", directory, *options):
        yield directory


@pytest.fixture
def kubectl(directory: Path) -> Kubectl:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on PATH")
    home = directory / "home"
    home.mkdir(exist_ok=True)
    return Kubectl(directory / "kubeconfig", home, "default")


def listed(kubectl: Kubectl, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", *arguments, "--output=json"))["items"]
    return found


def running(kubectl: Kubectl, deployment: str) -> list[dict[str, Any]]:
    pods = listed(kubectl, "pods", f"--selector=app={deployment}")
    return [
        pod for pod in pods if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def claims_of(kubectl: Kubectl) -> dict[str, dict[str, Any]]:
    """The claims by the group that owns them."""
    return {claim["metadata"]["ownerReferences"][0]["name"]: claim for claim in listed(kubectl, "resourceclaims")}


def all_run(kubectl: Kubectl, replicas: int) -> None:
    wait_until(lambda: all(len(running(kubectl, name)) == replicas for name in DEPLOYMENTS))


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_each_group_shares_a_claim_from_its_creation_to_its_end(kubectl: Kubectl, version: str) -> None:
    manifest = str(DATA / f"workload-{version}.yaml")
    kubectl("apply", "--filename=-", stdin=CLASS)
    kubectl("apply", f"--filename={manifest}")
    all_run(kubectl, 2)
    claims = claims_of(kubectl)
    assert sorted(claims) == ["my-podgroup-1", "my-podgroup-2"]
    for deployment, group in DEPLOYMENTS.items():
        assert [r["name"] for r in claims[group]["status"]["reservedFor"]] == [group]
        for pod in running(kubectl, deployment):
            (status,) = pod["status"]["resourceClaimStatuses"]
            assert status["resourceClaimName"] == claims[group]["metadata"]["name"]
    devices = [tuple(claim["status"]["allocation"]["devices"]["results"][0].items()) for claim in claims.values()]
    assert len(set(devices)) == 2

    kubectl("scale", "deployment", *DEPLOYMENTS, "--replicas=5")
    all_run(kubectl, 5)
    assert claims_of(kubectl) == claims

    kubectl("scale", "deployment", *DEPLOYMENTS, "--replicas=0")
    wait_until(lambda: not listed(kubectl, "pods"))
    assert claims_of(kubectl) == claims

    kubectl("delete", "podgroups", *DEPLOYMENTS.values())
    wait_until(lambda: not listed(kubectl, "resourceclaims"))
    kubectl("delete", f"--filename={manifest}", "--ignore-not-found")


def test_applying_the_example_again_changes_nothing(kubectl: Kubectl) -> None:
    manifest = str(DATA / "workload-v1alpha1.yaml")
    kubectl("apply", "--filename=-", stdin=CLASS)
    kubectl("apply", f"--filename={manifest}")
    again = kubectl("apply", f"--filename={manifest}").splitlines()
    assert [line for line in again if "scheduling.k8s.io" in line and "unchanged" not in line] == []
    kubectl("apply", "--server-side", "--force-conflicts", f"--filename={manifest}")
    kubectl("delete", f"--filename={manifest}")
    wait_until(lambda: not listed(kubectl, "podgroups"))
