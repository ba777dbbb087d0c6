"""Pods that try to leave their volumes, as a whole: real containers, real links, real restarts."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import Invalid
from dray.api.types.core import ConfigMap, Pod
from dray.client import Client
from tests.node.cluster import Cluster
from tests.node.conftest import running_agent
from tests.node.test_agent import container, lines
from tests.node.test_runtimes import unavailable
from tests.waiting import eventually


@pytest.fixture(params=["bwrap", "oci"])
async def node(request: pytest.FixtureRequest, node_client: Client, root: Path, clean: None) -> AsyncIterator[str]:
    if why := unavailable(request.param):
        pytest.skip(why)
    async with running_agent(node_client, root, runtime=request.param, refresh_seconds=0.2):
        yield request.param


def mounts(path: str, **more: Any) -> dict[str, Any]:
    return {"volumeMounts": [{"name": "data", "mountPath": path, **more}]}


@pytest.mark.parametrize("target", ["/etc", "../../../.."])
async def test_a_link_that_an_init_container_plants_is_not_mounted(node: str, cluster: Cluster, target: str) -> None:
    plant = container("plant", f"ln -s {target} /data/link", **mounts("/data"))
    use = container("main", "ls /part", **mounts("/part", subPath="link"))
    await cluster.pod("p", initContainers=[plant], containers=[use], volumes=[{"name": "data", "emptyDir": {}}])
    text = 'failed to prepare subPath for volumeMount "data" of container "main"'
    pod = await cluster.until("p", lambda pod: text in str(pod.status.containerStatuses))
    waiting = pod.status.containerStatuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "CreateContainerConfigError"


async def test_a_race_for_a_part_of_a_volume_is_never_won(
    node: str, cluster: Cluster, root: Path, tmp_path: Path
) -> None:
    """A sidecar exchanges a directory for a link to the host as fast as it can, while another container restarts."""
    secret = tmp_path / "host-secret"
    secret.mkdir()
    (secret / "of-the-host").touch()
    swap = (
        f"mkdir /data/real; ln -s {secret} /data/evil; "
        "while :; do mv -T /data/real /data/part; mv -T /data/part /data/real; "
        "mv -T /data/evil /data/part; mv -T /data/part /data/evil; done"
    )
    side = container("side", swap, restartPolicy="Always", **mounts("/data"))
    look = container("main", "ls /part; exit 1", **mounts("/part", subPath="part"))
    pod = await cluster.pod("p", initContainers=[side], containers=[look], volumes=[{"name": "data", "emptyDir": {}}])
    seen: set[str] = set()
    await eventually(lambda: restarted(root, pod, 4, seen))
    assert "of-the-host" not in seen


def restarted(root: Path, pod: Pod, times: int, seen: set[str]) -> bool:
    """Whether the container was started so often; collects what it has seen meanwhile."""
    seen |= {line for number in range(times + 1) for line in lines(root, pod, attempt=number)}
    directory = root / "pods" / pod.metadata.uid / "containers" / "main"
    attempts = os.listdir(directory) if directory.exists() else []
    return any(int(name.partition("-")[0]) >= times for name in attempts)


async def test_paths_that_leave_a_volume_are_refused_by_the_server(node: str, cluster: Cluster) -> None:
    told = {"fieldRef": {"fieldPath": "metadata.name"}}
    for path in ("/etc/cron.d/x", "../../../x", "..x"):
        for volume in (
            {"downwardAPI": {"items": [{"path": path, **told}]}},
            {"projected": {"sources": [{"serviceAccountToken": {"path": path}}]}},
        ):
            with pytest.raises(
                Invalid, match=r"must be a relative path|must not contain '\.\.'|must not start with '\.\.'"
            ):
                await cluster.pod("p", volumes=[{"name": "data", **volume}])


async def test_a_volume_of_files_is_read_only_and_follows_its_object(
    node: str, cluster: Cluster, client: Client, root: Path
) -> None:
    await client.create(ConfigMap, {"metadata": {"name": "m"}, "data": {"a": "first"}}, namespace="default")
    script = "rm -f /data/a 2>/dev/null; ln -s /etc/passwd /data/a 2>/dev/null; cat /data/a; echo; while ! grep -q second /data/a; do sleep 0.05; done; cat /data/a"
    pod = await cluster.pod(
        "p",
        containers=[container("main", script, **mounts("/data"))],
        volumes=[{"name": "data", "configMap": {"name": "m"}}],
        restartPolicy="Never",
    )
    await eventually(lambda: lines(root, pod))
    await client.patch(ConfigMap, "m", {"data": {"a": "second"}}, "default")
    await cluster.phase("p", "Succeeded")
    assert lines(root, pod) == ["first", "second"]
