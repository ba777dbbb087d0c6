"""`dray explain` against a real cluster, through its API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from dray.api.types.resource import ResourcePoolStatusRequest
from dray.cli import main
from dray.cli._kubectl import main as kubectl_dra
from dray.client.config import load
from dray.client.http import Http
from dray.testing import Cluster
from tests.cli.clusters import Cluster as Served
from tests.cli.clusters import cluster, furnish
from tests.cli.running import Dray
from tests.inspect.situations import pod
from tests.waiting import SECONDS, wait_until


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with cluster(tmp_path_factory.mktemp("dray")) as made:
        asyncio.run(furnish(made))
        yield made


@pytest.mark.wording
def test_a_pod_that_waits(running: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod", "waits", "--kubeconfig", str(running.admin)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == (
        "pod default/waits waits: request r of claim waits needs 5 devices on one node, "
        "and no node that it may use has more than 4"
    )
    assert "└─ claim waits" in said
    assert "   └─ request r: 5 needed: 4 published ✗" in said


@pytest.mark.wording
def test_a_pod_that_runs_and_its_claim(running: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod/runs", "--kubeconfig", str(running.admin)]) == 0
    assert capsys.readouterr().out.startswith("pod default/runs: it runs on node-")
    assert main(["explain", "claim", "runs", "-n", "default", "--kubeconfig", str(running.admin)]) == 0
    assert capsys.readouterr().out.startswith("claim default/runs: it is allocated: gpu.example.com/node-")


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_output_for_programs(running: Served, capsys: pytest.CaptureFixture[str], output: str) -> None:
    assert main(["explain", "pod", "waits", "-o", output, "--kubeconfig", str(running.admin)]) == 0
    text = capsys.readouterr().out
    found = json.loads(text) if output == "json" else yaml.safe_load(text)
    assert found["cause"]["code"] == "TooFewDevices"
    assert [node["node"] for node in found["nodes"]] == ["node-0", "node-1"]


@pytest.mark.wording
def test_the_kubectl_plugin_is_the_same_command(running: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert kubectl_dra(["explain", "pod", "waits", "--kubeconfig", str(running.admin)]) == 0
    assert capsys.readouterr().out.startswith("pod default/waits waits: ")
    assert kubectl_dra(["up"]) == 2
    assert "kubectl dra: there is no command up" in capsys.readouterr().err


@pytest.mark.wording
def test_what_is_not_there_and_who_may_not_look(running: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pod", "wait", "--kubeconfig", str(running.admin)]) == 1
    assert 'pod "wait" not found, did you mean waits?' in capsys.readouterr().err
    assert main(["explain", "pod", "waits", "--kubeconfig", str(running.guest)]) == 1
    assert "you may not list pods" in capsys.readouterr().err


def test_watching_goes_on_when_a_pod_is_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=1) as cluster, ThreadPoolExecutor(1) as pool:
        cluster.apply(pod(claims=[], nodeSelector={"zone": "mars"}))
        watched = pool.submit(main, ["explain", "pod/p", "--watch", "--kubeconfig", str(cluster.kubeconfig)])
        wait_until(lambda: "pod default/p" in capsys.readouterr().out)
        cluster.delete("pods", "p", grace=0)
        wait_until(lambda: "for a new one" in capsys.readouterr().err)
        cluster.apply(pod(claims=[]))
        assert watched.result(SECONDS) == 0


def test_watching_ends_when_a_pod_stays_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dray.cli.explain._ABSENT_SECONDS", 0.0)
    with Cluster(nodes=1) as cluster, ThreadPoolExecutor(1) as pool:
        cluster.apply(pod(claims=[], nodeSelector={"zone": "mars"}))
        watched = pool.submit(main, ["explain", "pod/p", "--watch", "--kubeconfig", str(cluster.kubeconfig)])
        wait_until(lambda: "pod default/p" in capsys.readouterr().out)
        cluster.delete("pods", "p", grace=0)
        assert watched.result(SECONDS) == 1


def test_wrong_arguments_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "node", "x"]) == 2
    assert "expected pod NAME, claim NAME, request NAME or podgroup NAME" in capsys.readouterr().err
    assert main(["explain", "pod", "x", "--kubeconfig", "/nowhere"]) == 2
    assert "/nowhere" in capsys.readouterr().err


@pytest.mark.wording
def test_a_request_that_nobody_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gates = ("--feature-gates", "DRAResourcePoolStatus=true", "--runtime-config", "resource.k8s.io/v1alpha3=true")
    with Dray("apiserver", "--dir", tmp_path, "--port", "0", "--store", "memory", *gates):
        asyncio.run(_ask(tmp_path / "kubeconfig"))
        assert main(["explain", "rpsr", "check", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 0
    assert "it has not been answered: no controller manager is running" in capsys.readouterr().out


@pytest.mark.wording
def test_requests_that_the_server_hides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Dray("apiserver", "--dir", tmp_path, "--port", "0", "--store", "memory"):
        assert main(["explain", "request", "check", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 1
    assert "its gate DRAResourcePoolStatus is off, or no version of them is enabled" in capsys.readouterr().err


async def _ask(kubeconfig: Path) -> None:
    async with Http(load(str(kubeconfig))) as client:
        tree = {"metadata": {"name": "check"}, "spec": {"driver": "gpu.example.com"}}
        await client.create(ResourcePoolStatusRequest, tree)
