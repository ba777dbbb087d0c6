"""`dray up --autoscale`: simulated nodes come and go; and, over gRPC, somebody else's loop drives them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaimTemplate
from dray.client.config import load
from dray.client.http import Http
from tests.cli.running import Dray, outcome
from tests.e2e import objects
from tests.ports import free_port
from tests.waiting import eventually

Work = Callable[[Http], Awaitable[None]]


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    file = tmp_path / "groups.yaml"
    made = {"name": "fast", "profile": "dgx-h100", "max": 3, "price": 80}
    file.write_text(yaml.safe_dump({"groups": [made], "settings": {"unneededSeconds": 0.5}}))
    return file


def up(directory: Path, groups: Path, *more: Any) -> Dray:
    return Dray("up", "--dir", directory, "--port", "0", "--store", "memory", "--autoscale", groups, *more)


async def comes_and_goes(kubeconfig: Path) -> None:
    """A pod gets a node that was not there, and the node goes after it."""
    async with Http(load(str(kubeconfig))) as client:

        async def nodes() -> list[str]:
            return [node.metadata.name for node in (await client.list(Node)).items]

        async def runs() -> bool:
            return (await client.get(Pod, "p", "default")).status.phase == "Running"

        async def none() -> bool:
            return not await nodes()

        assert not await nodes()
        request = objects.request(class_="gpu.nvidia.com", count=8)
        await client.create(ResourceClaimTemplate, objects.template("gpus", request))
        await client.create(Pod, objects.pod("p", templates=["gpus"]))
        await eventually(runs)
        assert await nodes() == ["fast-0"]
        await client.delete(Pod, "p", "default")
        await eventually(none)


def test_nodes_come_for_pods_and_go_after_them(tmp_path: Path, groups: Path) -> None:
    with up(tmp_path, groups) as process:
        assert any(str(groups) in line for line in process.lines)
        asyncio.run(comes_and_goes(tmp_path / "kubeconfig"))
        assert process.stop() == 0


def test_a_loop_in_another_process_drives_the_nodes_over_grpc(tmp_path: Path, groups: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    kubeconfig = tmp_path / "kubeconfig"
    options = (
        "--groups",
        groups,
        "--provider",
        address,
        "--interval",
        "0.2",
        "--kubeconfig",
        kubeconfig,
        "--port",
        "-1",
    )
    with up(tmp_path, groups, "--provider-address", address) as process:
        with Dray("autoscale", "run", *options) as loop:
            asyncio.run(comes_and_goes(kubeconfig))
            assert loop.stop() == 0
        assert process.stop() == 0


@pytest.mark.parametrize(
    ("options", "exit_status", "complaint"),
    [
        (("--autoscale", "nowhere.yaml"), 2, "nowhere.yaml"),
        (("--provider-address", "127.0.0.1:1"), 1, "--provider-address needs --autoscale"),
    ],
)
def test_options_that_make_no_sense_are_told(
    tmp_path: Path, options: tuple[str, ...], exit_status: int, complaint: str
) -> None:
    status, said = outcome("up", "--dir", tmp_path, "--port", "0", "--store", "memory", *options)
    assert status == exit_status
    assert complaint in said
    assert "Traceback" not in said


def test_a_loop_without_its_groups_is_told(tmp_path: Path) -> None:
    status, said = outcome("autoscale", "run", "--groups", tmp_path / "nowhere.yaml", "--provider", "127.0.0.1:1")
    assert status == 2
    assert "nowhere.yaml" in said
