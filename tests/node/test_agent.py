"""A node as a whole: real processes, real sockets, a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.cluster import Cluster, eventually
from tests.node.driver import Driver

pytestmark = pytest.mark.usefixtures("node")


def log_lines(root: Path, uid: str, container: str = "main", attempt: int = 0) -> list[str]:
    file = root / "pods" / uid / "containers" / container / str(attempt) / "log"
    return [line.split(" ", 3)[3] for line in file.read_text().splitlines()]


async def test_a_container_gets_the_environment_of_its_device(cluster: Cluster, driver: Driver, root: Path) -> None:
    claim = await cluster.claim("c")
    pod = await cluster.pod("p", "echo $GPU", claims=("c",), restartPolicy="Never")
    done = await cluster.phase("p", "Succeeded")
    assert log_lines(root, pod.metadata.uid) == [claim.metadata.uid]
    [status] = done.status.containerStatuses
    assert status.state.terminated is not None
    assert (status.state.terminated.exitCode, status.state.terminated.reason) == (0, "Completed")
    assert driver.calls == [("prepare", [claim.metadata.uid]), ("unprepare", [claim.metadata.uid])]
    assert driver.cdi_files == []


async def test_a_deleted_pod_is_stopped_unprepared_and_gone(cluster: Cluster, driver: Driver, root: Path) -> None:
    await cluster.claim("c")
    await cluster.pod("p", claims=("c",))
    await cluster.phase("p", "Running")
    await cluster.delete("p")
    await cluster.gone("p")
    assert driver.prepared == set()
    await eventually(lambda: not [*(root / "pods").iterdir()])
