"""`dray up --nodes N`: a whole cluster in one process, its figures, its logs, and what can go wrong."""

from __future__ import annotations

import signal
import ssl
import urllib.request
from pathlib import Path

import pytest
import yaml

from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaimTemplate, ResourceSlice
from dray.client import Client
from dray.client.config import load
from dray.client.http import Http
from tests.cli.running import outcome
from tests.e2e.objects import pod, template
from tests.e2e.processes import Process
from tests.waiting import SECONDS, eventually

FIGURES = (
    "apiserver_request_total{",
    'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0',
    "scheduler_pending_pods{",
    "scheduler_framework_extension_point_duration_seconds_count{",
    "resourceclaim_controller_create_total 2.0",
    "resourceclaim_controller_allocated_resource_claims 1.0",
    'workqueue_adds_total{name="resource_claim"}',
)


def text(directory: Path, path: str) -> str:
    config = yaml.safe_load((directory / "kubeconfig").read_text())
    request = urllib.request.Request(config["clusters"][0]["cluster"]["server"] + path)
    request.add_header("Authorization", f"Bearer {config['users'][0]['user']['token']}")
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:
        return str(answer.read().decode())


def complete(figures: str) -> str:
    return figures if all(name in figures for name in FIGURES) else ""


async def bound(client: Client, name: str) -> bool:
    return (await client.get(Pod, name, "default")).status.phase == "Running"


async def test_it_has_ready_nodes_runs_pods_and_publishes_the_figures_of_all_its_parts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ("--store", "memory", "--nodes", "2", "--devices", "200", "-v", "5")
    with Process(log, "up", "--dir", tmp_path, "--port", "0", *options) as up:
        async with Http(load(str(tmp_path / "kubeconfig"))) as client:

            async def published() -> bool:
                return len((await client.list(ResourceSlice)).items) == 4  # 128 devices are the most of one slice

            await eventually(published)
            nodes = (await client.list(Node)).items
            assert all(any(c.type == "Ready" and c.status == "True" for c in n.status.conditions) for n in nodes)
            await client.create(ResourceClaimTemplate, template("t"))
            await client.create(Pod, pod("p", templates=["t"]))
            await eventually(lambda: bound(client, "p"))
            await client.create(Pod, pod("q", templates=["t"], nodeSelector={"nowhere": "x"}))
            await eventually(lambda: refused(client, "q"))
            assert text(tmp_path, "/healthz") == "ok"
            figures = await eventually(lambda: complete(text(tmp_path, "/metrics")))
        assert up.kill(signal.SIGTERM) == 0
    families = [line.split()[2] for line in figures.splitlines() if line.startswith("# HELP ")]
    assert len(families) == len(set(families))
    said = log.read_text()
    assert "Traceback" not in said
    assert "pod default/p goes to node node-" in said
    assert "node(s) didn't match Pod's node affinity/selector" in said


async def refused(client: Client, name: str) -> bool:
    conditions = (await client.get(Pod, name, "default")).status.conditions
    return any(c.type == "PodScheduled" and c.status == "False" for c in conditions)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--nodes", "-1"], "--nodes: expected a number from 0, got -1"),
        (["--scheduler-config", "/nonexistent/file"], "--scheduler-config /nonexistent/file"),
        (["--scheduler-config", "{here}/list.yaml"], "expected apiVersion kubescheduler.config.k8s.io/v1"),
        (["--scheduler-config", "{here}/broken.yaml"], "broken.yaml: not valid YAML: line 2, column 1: "),
    ],
)
def test_options_that_make_no_sense_are_explained(tmp_path: Path, arguments: list[str], text: str) -> None:
    (tmp_path / "list.yaml").write_text("[]")
    (tmp_path / "broken.yaml").write_text("{")
    told = [argument.replace("{here}", str(tmp_path)) for argument in arguments]
    code, said = outcome("up", "--dir", tmp_path, "--port", "0", "--store", "memory", *told)
    assert code == (2 if "/nonexistent" in text or "YAML" in text else 1)
    assert text in said
    assert "Traceback" not in said
