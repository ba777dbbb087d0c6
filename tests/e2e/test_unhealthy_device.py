"""A device that its driver reports as unhealthy: seen from the driver through slice, taint and pod to explain and dashboard."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from dray.api.types.core import Event, Pod
from dray.api.types.resource import ResourceSlice
from dray.client.config import load
from dray.client.http import Http
from dray.driver import Runner
from dray.driver.example import GpuDriver
from dray.testing import Cluster
from tests import objects
from tests.waiting import eventually
from tests.web.serving import browser

NODE, DRIVER = "agent-0", "gpu.example.com"
CLAIMS = [{"name": "gpu", "resourceClaimName": "mine"}]
CONTAINERS = [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}]


async def printed(cluster: Cluster, *words: str) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "dray", *words, "--kubeconfig", str(cluster.kubeconfig)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0].decode()


async def is_running(pod: Callable[[], Awaitable[Pod]]) -> bool:
    return (await pod()).status.phase == "Running"


async def says(look: Callable[[], Awaitable[list[str]]], wanted: list[str]) -> bool:
    return await look() == wanted


async def test_an_unhealthy_device_is_seen_everywhere_and_nobody_else_gets_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    with Cluster(agents=1, runtime="fake", insecure=True) as cluster:
        config = load(str(cluster.kubeconfig))
        root = cluster.directory / "nodes" / NODE
        driver = GpuDriver(NODE, 2, unhealthy=broken)
        places: dict[str, Any] = {"node": NODE, "kubelet_dir": root, "cdi_dir": root / "cdi"}
        async with (
            Http(config) as client,
            Runner(driver, client, **places, refresh=0.1, taint_unhealthy="NoSchedule") as runner,
        ):
            await runner.publisher.published()
            for tree in (
                objects.device_class("gpu", f'device.driver == "{DRIVER}"'),
                objects.claim("mine", objects.request("r", "gpu"), namespace="default"),
                objects.claim("next", objects.request("r", "gpu", count=2), namespace="default"),
                objects.pod("user", resourceClaims=CLAIMS, containers=CONTAINERS),
            ):
                await asyncio.to_thread(cluster.apply, tree)

            async def user() -> Pod:
                return await client.get(Pod, "user", "default")

            await eventually(lambda: is_running(user))
            [result] = (await asyncio.to_thread(cluster.get, "resourceclaims", "mine"))["status"]["allocation"][
                "devices"
            ]["results"]
            device = result["device"]

            broken.write_text(device)  # the driver says it from now on

            async def taints() -> list[str]:
                [one] = (await client.list(ResourceSlice)).items
                return [f"{d.name} {t.key}:{t.effect}" for d in one.spec.devices for t in d.taints]

            async def told() -> bool:
                return any(
                    event.reason == "DeviceUnhealthy"
                    and event.message == f"device {DRIVER}/{NODE}/{device} is unhealthy: it does not respond"
                    for event in (await client.list(Event, "default")).items
                )

            async def health() -> list[str]:
                statuses = (await user()).status.containerStatuses
                return [one.health for s in statuses for r in s.allocatedResourcesStatus for one in r.resources]

            assert await eventually(taints) == [f"{device} {DRIVER}/unhealthy:NoSchedule"]
            await eventually(told)
            await eventually(lambda: says(health, ["Unhealthy"]))
            explained = await printed(cluster, "explain", "pod", "user")
            assert f"its devices are not all healthy: {DRIVER}/{NODE}/{device} (it does not respond)" in explained
            top = await printed(cluster, "top", "devices")
            assert "unhealthy: it does not respond" in top
            async with browser(config.server) as window:
                await window.sign_in()
                async with window.page() as page:
                    await page.wait(lambda: page.state(device) == "unhealthy")

            broken.write_text("")  # it works again
            await eventually(lambda: says(taints, []))
            await eventually(lambda: says(health, ["Healthy"]))
