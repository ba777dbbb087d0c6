"""The node agent on imitations of Kubernetes 1.34 to 1.37: a pod with a claim runs, and ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.errors import NotFound
from dray.api.types.core import Pod
from tests.node.cluster import NAMESPACE, Cluster
from tests.node.conftest import running_agent
from tests.node.driver import Driver
from tests.permissions import EVERYTHING, allow
from tests.releases import RELEASES, serving
from tests.waiting import eventually


@pytest.mark.parametrize("minor", RELEASES)
async def test_an_agent_runs_a_pod_with_a_claim_on_each_release(
    minor: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path, driver: Driver
) -> None:
    async with serving(RELEASES[minor], monkeypatch, tmp_path) as server, server.client("nodes") as client:
        await allow(server.admin, "nodes", EVERYTHING)
        cluster = Cluster(server.admin)
        async with running_agent(client, root, runtime="fake"):
            await driver.start()
            await cluster.claim("c")
            pod = await cluster.pod("p", claims=("c",))

            async def phase() -> str:
                try:
                    return (await server.admin.get(Pod, "p", NAMESPACE)).status.phase
                except NotFound:
                    return "gone"

            async def runs() -> bool:
                return await phase() == "Running"

            async def is_gone() -> bool:
                return await phase() == "gone"

            await eventually(runs)
            await server.admin.delete(Pod, pod.metadata.name, NAMESPACE)
            await eventually(is_gone)
