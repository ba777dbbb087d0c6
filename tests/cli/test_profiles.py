"""`dray up --profile`: nodes of these kinds with their devices, in a running cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.client.config import load
from dray.client.http import Http
from tests.cli.running import Dray, outcome
from tests.waiting import eventually

OPTIONS = ("--port", "0")


async def use(kubeconfig: Path) -> tuple[list[str], list[int], str]:
    """The nodes, the number of devices in each slice, and where a pod with a MIG partition runs."""
    selector = {"cel": {"expression": 'device.attributes["gpu.nvidia.com"].profile == "3g.20gb"'}}
    exactly = {"deviceClassName": "mig.nvidia.com", "selectors": [selector]}
    meta = {"name": "part", "namespace": "default"}
    entry = {"name": "part", "resourceClaimName": "part"}
    container = {"name": "c", "image": "x"}
    async with Http(load(str(kubeconfig))) as client:
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        await client.create(ResourceClaim, {"metadata": meta, "spec": spec})
        await client.create(Pod, {"metadata": meta, "spec": {"resourceClaims": [entry], "containers": [container]}})

        async def runs() -> bool:
            return (await client.get(Pod, "part", "default")).status.phase == "Running"

        await eventually(runs)
        nodes = sorted(node.metadata.name for node in (await client.list(Node)).items)
        slices = (await client.list(ResourceSlice)).items
        assert all(piece.metadata.ownerReferences[0].name == piece.spec.nodeName for piece in slices)
        return (
            nodes,
            sorted(len(s.spec.devices) for s in slices),
            (await client.get(Pod, "part", "default")).spec.nodeName,
        )


def test_nodes_of_profiles_run_beside_plain_ones_and_go_when_they_are_not_asked_for(tmp_path: Path) -> None:
    with Dray("up", "--dir", tmp_path, "--profile", "mig-a100,cpu*2", "--nodes", "1", *OPTIONS) as first:
        nodes, devices, place = asyncio.run(use(tmp_path / "kubeconfig"))
        assert first.stop() == 0
    assert nodes == ["cpu-0", "cpu-1", "mig-a100-0", "node-0"]
    assert devices == [0, 2, 2, 8, 16, 64, 64, 64]  # 8 GPUs with 26 devices each; counters have a slice of their own
    assert place == "mig-a100-0"
    with Dray("up", "--dir", tmp_path, "--profile", "cpu", *OPTIONS):

        async def left() -> bool:
            async with Http(load(str(tmp_path / "kubeconfig"))) as client:
                return {node.metadata.name for node in (await client.list(Node)).items} == {"cpu-0"}

        asyncio.run(eventually(left))


@pytest.mark.parametrize("line", ["dgx", "cpu*0"])
def test_a_line_that_names_no_profile_is_refused_before_anything_starts(tmp_path: Path, line: str) -> None:
    code, said = outcome("up", "--dir", tmp_path, "--port", "0", "--profile", line)
    assert code == 1
    assert "profile" in said or "NAME*COUNT" in said
