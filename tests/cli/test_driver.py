"""`dray driver` as people run it: real processes, from a driver's file to a pod's log."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from dray.api.errors import ApiError
from dray.api.resources import BY_KIND
from dray.api.types.admissionregistration import ValidatingWebhookConfiguration
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceSlice
from dray.client.config import load
from dray.client.http import Http
from tests.cli.running import DRAY, Dray, outcome
from tests.waiting import SECONDS, wait_until

T = TypeVar("T")
EXAMPLES = Path(__file__).parents[2] / "src/dray/examples/driver"


@pytest.fixture
def root() -> Iterator[Path]:
    """Short, since sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="dray-") as name:
        yield Path(name)


def test_manifests_are_printed() -> None:
    for kind in ("cpu", "gpu", "mig", "network", "nic"):
        status, text = outcome("driver", "example", kind, "--manifests")
        assert status == 0
        assert {tree["kind"] for tree in yaml.safe_load_all(text)} >= {"DeviceClass", "ClusterRole"}


def test_what_is_missing_is_said() -> None:
    status, text = outcome("driver", "example", "gpu")
    assert (status, "--node is required" in text) == (1, True)
    status, text = outcome("driver", "example", "--node", "n", "--kubeconfig", "/nowhere")
    assert (status, "/nowhere" in text) == (2, True)
    status, text = outcome("driver", "test", "--kubeconfig", "/nowhere", "--", "/no/such/driver")
    assert (status, "/no/such/driver" in text) == (2, True)


@contextmanager
def process(*arguments: str | Path, kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([*map(str, arguments)], env={**os.environ, "KUBECONFIG": str(kubeconfig)})
    try:
        yield child
    finally:
        child.terminate()
        child.wait(SECONDS)


def asked(kubeconfig: Path, question: Callable[[Http], Awaitable[T]]) -> T:
    async def ask() -> T:
        async with Http(load(str(kubeconfig))) as client:
            return await question(client)

    return asyncio.run(ask())


def eventually(kubeconfig: Path, question: Callable[[Http], Awaitable[T]]) -> T:
    return wait_until(lambda: asked(kubeconfig, question))


async def apply(client: Http) -> None:
    for tree in yaml.safe_load_all((EXAMPLES / "pod.yaml").read_text()):
        resource = BY_KIND[tree["apiVersion"].rpartition("/")[0], tree["kind"]]
        namespace = "default" if resource.namespaced else ""
        await client.create(resource.type, tree, namespace=namespace)  # type: ignore[type-var]  # kinds are objects


async def log_of(client: Http) -> str:
    pod = await client.get(Pod, "astronomer", "default")
    if pod.status.phase != "Succeeded":
        return ""
    return b"".join([chunk async for chunk in client.log("astronomer", "default")]).decode()


async def published(client: Http) -> bool:
    return bool((await client.list(ResourceSlice)).items)


@pytest.mark.slow
def test_from_a_file_of_forty_lines_to_a_pod_that_prints_its_device(root: Path) -> None:
    assert len((EXAMPLES / "driver.py").read_text().splitlines()) <= 40
    kubeconfig, node = root / "up" / "kubeconfig", root / "n"
    with ExitStack() as stack:
        stack.enter_context(Dray("up", "--dir", root / "up", "--store", "memory", "--port", "0"))
        options = ("--name", "laptop", "--root", node, "--runtime", "process", "--port", "-1")
        stack.enter_context(Dray("node", *options, "--kubeconfig", kubeconfig))
        driver = stack.enter_context(
            process(sys.executable, EXAMPLES / "driver.py", "laptop", node, kubeconfig=kubeconfig)
        )
        assert eventually(kubeconfig, published)
        asked(kubeconfig, apply)
        assert eventually(kubeconfig, log_of) == "looking through webb\n"
        socket = node / "plugins_registry/telescope.example.com-reg.sock"
        status, text = outcome(
            *("driver", "test", socket, "--node", "laptop", "--cdi-dir", node / "cdi", "--kubeconfig", kubeconfig)
        )
        assert (status, "0 failed" not in text, driver.poll()) == (0, True, None), text
        assert "passed   prepares a claim" in text
        assert "comes back after being killed" in text


def test_the_example_serves_its_webhook_and_takes_its_slices_and_sockets_along(root: Path) -> None:
    kubeconfig, node, file = root / "s" / "kubeconfig", root / "n", root / "webhook.yaml"

    async def prepare_cluster(client: Http) -> None:
        await client.create(Node, {"metadata": {"name": "laptop"}})

    async def refuses(client: Http) -> None:
        await client.create(ValidatingWebhookConfiguration, yaml.safe_load(file.read_text()))
        opaque = {"driver": "gpu.example.com", "parameters": {"sharing": "often"}}
        with pytest.raises(ApiError, match=r"config\[0\]"):
            await client.create(DeviceClass, {"metadata": {"name": "c"}, "spec": {"config": [{"opaque": opaque}]}})

    with Dray("apiserver", "--dir", root / "s", "--store", "memory", "--port", "0"):
        asked(kubeconfig, prepare_cluster)
        options = ("--node", "laptop", "--root", node, "--kubeconfig", kubeconfig, "--withdraw")
        with Dray("driver", "example", "gpu", *options, "--webhook-port", "0", "--webhook-config", file) as example:
            assert eventually(kubeconfig, published)
            asked(kubeconfig, refuses)
            assert example.stop() == 0
        assert not asked(kubeconfig, published)
        assert [path for path in node.rglob("*") if path.is_socket()] == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["example", "command", "mig", "nic"])
def test_the_examples_pass_their_own_test(root: Path, target: str) -> None:
    places = ["--node={node}", "--kubelet-dir={kubelet-dir}", "--cdi-dir={cdi-dir}"]
    command = {
        "example": ["example"],
        "command": ["--", sys.executable, str(EXAMPLES / "driver.py"), "{node}", "{kubelet-dir}"],
    }.get(target, ["--", *DRAY, "driver", "example", target, *places])
    done = subprocess.run(
        [*DRAY, "driver", "test", "-o", "json", "--patience", "1.5", *command],
        capture_output=True,
        text=True,
        timeout=4 * SECONDS,
        check=False,
    )
    report = json.loads(done.stdout)
    failed = {one["check"]: one["detail"] for one in report["results"] if one["outcome"] == "failed"}
    assert (failed, done.returncode, report["passed"]) == ({}, 0, True)
    skipped = {one["check"] for one in report["results"] if one["outcome"] == "skipped"}
    assert skipped == (set() if target == "example" else {"raises the generation"})
    names = {"example": "gpu.example.com", "command": "telescope.example.com"}
    assert report["driver"] == names.get(target, f"{target}.example.com")
