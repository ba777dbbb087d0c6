"""`dray node` as a process of its own, and node agents inside `dray up`."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.client.config import load
from dray.client.http import Http
from tests import objects
from tests.cli.running import Dray, outcome
from tests.waiting import SECONDS, eventually

MARK = f"6{os.getpid()}"  # seconds that no other process sleeps


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="dc-") as directory:
        yield Path(directory)


def pod_running(name: str, script: str) -> dict[str, Any]:
    main = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script]}
    return objects.pod(name, containers=[main], terminationGracePeriodSeconds=1)


async def ready(client: Http, count: int) -> None:
    async def look() -> bool:
        nodes = (await client.list(Node)).items
        return sum(c.type == "Ready" and c.status == "True" for n in nodes for c in n.status.conditions) == count

    await eventually(look)


async def running(client: Http, name: str) -> None:
    async def look() -> bool:
        return (await client.get(Pod, name, "default")).status.phase == "Running"

    await eventually(look)


def processes(argument: str) -> int:
    """How many processes have this argument."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += argument in entry.read_text().split("\0")
        except OSError:
            continue
    return count


async def test_up_with_agents_runs_pods_and_takes_them_along(place: Path) -> None:
    arguments = ("--port", "0", "--store", "memory", "--agents", "2", "--runtime", "process")
    with Dray("up", "--dir", place, *arguments) as dray:
        async with Http(load(str(place / "kubeconfig"))) as client:
            await ready(client, 2)
            await client.create(Pod, pod_running("p", f"echo hello; exec sleep {MARK}"), namespace="default")
            await running(client, "p")
            await eventually(lambda: processes(MARK) == 1)
            assert b"".join([piece async for piece in client.log("p", "default")]) == b"hello\n"
        assert dray.stop() == 0
    await eventually(lambda: processes(MARK) == 0)


async def test_a_waiting_pod_gets_no_device_of_a_driver_that_ran_before_the_cluster_was_stopped(place: Path) -> None:
    up = ("up", "--dir", place, "--port", "0", "--agents", "1", "--runtime", "process")
    kubeconfig = place / "kubeconfig"
    with Dray(*up) as dray:
        async with Http(load(str(kubeconfig))) as client:
            await ready(client, 1)
        assert dray.stop() == 0
    with Dray("apiserver", "--dir", place, "--port", "0") as dray:  # the node is still Ready, and nothing runs it
        async with Http(load(str(kubeconfig))) as client:
            await client.create(ResourceSlice, objects.resource_slice("stale", "d", node="agent-0"))
            await client.create(DeviceClass, objects.device_class())
            await client.create(ResourceClaim, objects.claim("c"), namespace="default")
            await client.create(Pod, objects.pod("p", claims=["c"]), namespace="default")
        assert dray.stop() == 0
    with Dray(*up):
        async with Http(load(str(kubeconfig))) as client:

            async def judged() -> Pod | None:
                pod = await client.get(Pod, "p", "default")
                return pod if pod.spec.nodeName or pod.status.conditions else None

            pod = await eventually(judged)
            assert pod is not None
            assert not pod.spec.nodeName
            assert not (await client.list(ResourceSlice)).items


async def test_a_node_of_its_own_joins_a_cluster_and_leaves_its_pods_running(place: Path) -> None:
    with Dray("up", "--dir", place, "--port", "0", "--store", "memory"):
        kubeconfig = place / "kubeconfig"
        arguments = ("--name", "n1", "--root", place / "n1", "--runtime", "process", "--port", "-1", "--labels", "a=b")
        async with Http(load(str(kubeconfig))) as client:
            with Dray("node", "--kubeconfig", kubeconfig, *arguments) as node:
                await ready(client, 1)
                assert (await client.get(Node, "n1")).metadata.labels["a"] == "b"
                await client.create(Pod, pod_running("p", f"echo hello; exec sleep {MARK}"), namespace="default")
                await running(client, "p")
                await eventually(lambda: processes(MARK) == 1)
                if kubectl := shutil.which("kubectl"):
                    said = await asyncio.to_thread(logs, kubectl, kubeconfig)
                    assert said == "hello\n"
                assert node.stop() == 0
            assert processes(MARK) == 1
            await client.delete(Pod, "p", "default")
            with Dray("node", "--kubeconfig", kubeconfig, *arguments):
                await eventually(lambda: processes(MARK) == 0)

                async def gone() -> bool:
                    return not (await client.list(Pod, "default")).items

                await eventually(gone)


def logs(kubectl: str, kubeconfig: Path) -> str:
    command = [kubectl, "--kubeconfig", str(kubeconfig), "logs", "p", "--tail=1"]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout


def test_options_that_make_no_sense_are_explained(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    basics = ("node", "--name", "n", "--root", place / "r")
    code, text = outcome(*basics, "--labels", "nope")
    assert (code, text) == (1, "dray node: --labels: expected NAME=VALUE,…, got 'nope'\n")
    code, text = outcome(*basics, "--images", place / "none")
    assert (code, text) == (1, f"dray node: --images: {place / 'none'} is no directory\n")
    code, text = outcome(*basics, "--registry", "docker.io=nope")
    assert (code, text) == (1, "dray node: --registry: expected HOST or HOST=URL, got 'docker.io=nope'\n")
    code, text = outcome(*basics, "--no-leader-elect")
    assert (code, "there is no option --no-leader-elect" in text) == (2, True)
    code, text = outcome(*basics, "--runtime", "process", "--kubeconfig", place / "missing")
    assert (code, "missing" in text, "Traceback" in text) == (2, True, False)
    monkeypatch.setenv("PATH", "/nowhere")
    code, text = outcome(*basics, "--runtime", "bwrap")
    assert (code, text) == (1, "dray node: runtime bwrap: bwrap is not installed\n")
