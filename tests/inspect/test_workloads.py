"""Workloads whose pods cannot be created, or wait: the cause is told of the workload, and what is suggested helps."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from dray.api.types.apps import Deployment
from dray.api.types.batch import Job
from dray.api.wire import Tree
from dray.cli import main
from dray.inspect.placement import Allowance
from dray.inspect.snapshot import Snapshot
from dray.inspect.workloads import WorkloadCase
from dray.testing import Cluster
from tests import objects
from tests.inspect.situations import claim, pod, quota, request, runs, template
from tests.inspect.test_situations import make
from tests.waiting import SECONDS, wait_until


def deployment(replicas: int = 2, **spec: Any) -> Tree:
    return objects.deployment("web", replicas, namespace="default", **{**pod(claims=[])["spec"], **spec})


def explained(cluster: Cluster, capsys: pytest.CaptureFixture[str], code: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        capsys.readouterr()
        assert main(["explain", "deployment/web", "-o", "json", "--kubeconfig", str(cluster.kubeconfig)]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found if found["cause"]["code"] == code else None

    return wait_until(look)


def running(cluster: Cluster) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in cluster.list("pods"))


def test_a_quota_that_refuses_pods(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1) as cluster:
        cluster.apply(quota(pods="1"))
        wait_until(lambda: cluster.get("resourcequotas", "q").get("status", {}).get("used"))
        cluster.apply(deployment(replicas=3))
        found = explained(cluster, capsys, "Quota")
        assert (found["waits"], found["cause"]["quota"]) == (True, "q")
        [helps] = found["help"]
        assert (helps["code"], helps["to"]) == ("help-raise-quota", "3")
        for change in helps["changes"]:
            make(cluster, change)
        wait_until(lambda: running(cluster) == 3)
        assert not explained(cluster, capsys, "AllRun")["waits"]


def test_a_quota_that_refuses_claims_is_raised_for_all_pods_that_wait(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1) as cluster:
        cluster.apply(quota(**{"count/resourceclaims.resource.k8s.io": "1"}))
        cluster.apply(template())
        wait_until(lambda: cluster.get("resourcequotas", "q").get("status", {}).get("used"))
        entry = {"name": "d", "resourceClaimTemplateName": "t"}
        cluster.apply(deployment(replicas=4, resourceClaims=[entry]))
        wait_until(lambda: running(cluster) == 1)
        [helps] = explained(cluster, capsys, "PodWaits")["help"]
        assert (helps["code"], helps["to"]) == ("help-raise-quota", "4")
        for change in helps["changes"]:
            make(cluster, change)
        wait_until(lambda: running(cluster) == 4)


def test_a_service_account_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1) as cluster:
        cluster.apply(deployment(serviceAccountName="robot"))
        [helps] = explained(cluster, capsys, "ServiceAccountMissing")["help"]
        for change in helps["changes"]:
            make(cluster, change)
        wait_until(lambda: running(cluster) == 2)


def test_a_rollout_whose_pods_are_refused_waits_although_the_old_ones_run(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1) as cluster:
        cluster.apply(deployment())
        wait_until(lambda: running(cluster) == 2)
        spec = {"template": {"spec": {"serviceAccountName": "robot"}}}
        cluster.patch("deployments", "web", {"spec": spec})
        [helps] = explained(cluster, capsys, "ServiceAccountMissing")["help"]
        assert helps["code"] == "help-create-account"


@pytest.mark.parametrize(
    ("replicas", "wanted", "says"),
    [(2, "PodsNotMade", "0 of its 2 pods exist"), (0, "AllRun", "it wants no pods")],
)
@pytest.mark.wording
def test_a_workload_without_pods(replicas: int, wanted: str, says: str) -> None:
    """Without a controller manager nobody makes pods."""
    web = msgspec.convert(deployment(replicas), Deployment)
    found, _ = WorkloadCase(Snapshot.of(web), web, Allowance()).finding()
    assert (found.cause.code, found.waits) == (wanted, bool(replicas))
    assert says in found.cause.text


def job(suspend: bool = False, **condition: str) -> Job:
    status = {"conditions": [{"status": "True", **condition}]} if condition else {}
    return msgspec.convert({"metadata": {"name": "j"}, "spec": {"suspend": suspend}, "status": status}, Job)


@pytest.mark.parametrize(
    ("one", "wanted", "waits"),
    [
        (
            job(type="Failed", message="Job has reached the limit"),
            "it is finished: Failed: Job has reached the limit",
            False,
        ),
        (job(type="Complete"), "it is finished: Complete", False),
        (job(suspend=True), "it is suspended (spec.suspend)", True),
    ],
)
@pytest.mark.wording
def test_a_job_that_has_ended_or_is_suspended(one: Job, wanted: str, waits: bool) -> None:
    found, _ = WorkloadCase(Snapshot.of(one), one, Allowance()).finding()
    assert (found.cause.text, found.waits) == (wanted, waits)


def test_the_pod_that_waits_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1, devices=2) as cluster:
        cluster.apply(template("t", request(count=3)))
        spec = pod(templates=["t"])["spec"]
        cluster.apply(deployment(**spec))
        found = explained(cluster, capsys, "PodWaits")
        assert found["cause"]["cause"]["code"] == "TooFewDevices"
        assert found["cause"]["pod"].startswith("web-")
        assert found["help"][0]["code"] == "help-fewer-devices"
        assert {change["kind"] for change in found["help"][0]["changes"]} == {"ResourceClaimTemplate", "Pod"}


def test_what_helps_a_pod_is_changed_in_its_workload(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1, devices=2) as cluster:
        cluster.apply(deployment(nodeSelector={"kubernetes.io/hostname": "mars"}))
        found = explained(cluster, capsys, "PodWaits")
        [helps] = found["help"]
        assert (helps["code"], helps["where"]) == ("help-no-node-selector", "deployment web")
        [change] = helps["changes"]
        assert (change["verb"], change["kind"], change["name"]) == ("patch", "Deployment", "web")
        make(cluster, change)
        wait_until(lambda: running(cluster) == 2)


@pytest.mark.wording
def test_a_workload_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1) as cluster:
        cluster.apply(claim())
        assert main(["explain", "job", "web", "--kubeconfig", str(cluster.kubeconfig)]) == 1
        assert 'job "web" not found' in capsys.readouterr().err


@pytest.mark.wording
def test_a_watcher_is_told_until_the_pod_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1, devices=1) as cluster:
        runs(claim("x"), pod("x", claims=["x"]))(cluster)
        cluster.apply(claim("c"))
        cluster.apply(pod())
        command = ["explain", "pod", "p", "--watch", "--kubeconfig", str(cluster.kubeconfig)]
        said: list[str] = []

        def look() -> bool:
            said.append(capsys.readouterr().out)
            return "waits: " in "".join(said)

        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(main, command)
            wait_until(look)
            cluster.delete("pods", "x")
            assert watching.result(SECONDS) == 0
        last = "".join([*said, capsys.readouterr().out]).splitlines()[-1]
        assert last == "pod default/p: it runs on node-0"
