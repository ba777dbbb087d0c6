"""Pods that run in their images, and pods that wait for them; under runtimes that use images."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dray.api.types.core import Secret
from dray.client import Client
from dray.node.images.puller import ImageSettings
from dray.node.runtime import ContainerKey
from dray.node.runtimes import open_runtime
from tests.node.cluster import Cluster
from tests.node.conftest import running_agent
from tests.node.images.imaging import Layout, shell_layer
from tests.node.test_agent import lines
from tests.node.test_runtimes import unavailable
from tests.waiting import eventually, within

shell = cache(shell_layer)


@pytest.fixture(params=["bwrap", "oci"])
async def images(
    request: pytest.FixtureRequest, node_client: Client, root: Path, clean: None, tmp_path: Path
) -> AsyncIterator[Layout]:
    """A node whose images are in a directory."""
    if why := unavailable(request.param):
        pytest.skip(why)
    layout = Layout(tmp_path / "images/app")
    layout.add(
        "1", [shell()], Entrypoint=["/bin/sh", "-c"], Cmd=["echo $FROM; id -u; ls /usr 2>&1; true"], Env=["FROM=image"]
    )
    settings = ImageSettings((tmp_path / "images",), {})
    async with running_agent(node_client, root, runtime=request.param, images=settings):
        yield layout


def main(image: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", **more}]


async def test_a_container_runs_what_its_image_says(images: Layout, cluster: Cluster, root: Path) -> None:
    pod = await cluster.pod("p", containers=main("app:1"), restartPolicy="Never")
    done = await cluster.phase("p", "Succeeded")
    assert lines(root, pod)[:2] == ["image", "0"]
    assert "No such file" in lines(root, pod)[2]  # the host's files are not there
    assert done.status.containerStatuses[0].imageID.startswith("docker.io/library/app@sha256:")
    events = await cluster.events("p")
    assert ("Pulling", 'Pulling image "app:1"') in events
    [pulled] = [text for reason, text in events if reason == "Pulled"]
    assert pulled.startswith('Successfully pulled image "app:1" in ')
    await cluster.pod("q", containers=main("app:1", args=["echo $FROM"], env=[{"name": "FROM", "value": "pod"}]))
    text = 'Container image "app:1" already present on machine and can be accessed by the pod'
    assert await cluster.event("q", "Pulled") == text


@pytest.mark.parametrize("user", [0, 1234])
async def test_commands_in_an_image_need_nothing_of_the_host(
    images: Layout, cluster: Cluster, root: Path, user: int
) -> None:
    context = {"securityContext": {"runAsUser": user}}
    path = [{"name": "PATH", "value": "/nowhere:/bin"}]
    await cluster.pod("p", containers=main("app:1", command=["sleep", "600"], env=path, **context))
    pod = await cluster.phase("p", "Running")
    runtime = open_runtime(pod.status.containerStatuses[0].containerID.partition(":")[0], root)
    for tty in (False, True):
        session = await runtime.exec(ContainerKey(pod.metadata.uid, "main", 0), ["id", "-u"], tty=tty)
        assert (await within(session.read())).split() == [str(user).encode()], session.failure
        assert await within(session.wait()) == 0
        session.close()


async def test_what_one_container_writes_no_other_sees(images: Layout, cluster: Cluster, root: Path) -> None:
    script = [
        "/bin/sh",
        "-c",
        "ls /made 2>/dev/null; touch /made /bin/new && echo wrote; cat /etc/resolv.conf >/dev/null",
    ]
    for name in ("a", "b"):
        pod = await cluster.pod(name, containers=main("app:1", command=script), restartPolicy="Never")
        await cluster.phase(name, "Succeeded")
        assert lines(root, pod) == ["wrote"]
    fixed = {"securityContext": {"readOnlyRootFilesystem": True}}
    pod = await cluster.pod("c", containers=main("app:1", command=script, **fixed), restartPolicy="Never")
    await cluster.phase("c", "Succeeded")
    assert lines(root, pod)[-1].endswith("Read-only file system")


async def test_volumes_user_and_directory(images: Layout, cluster: Cluster, root: Path) -> None:
    images.add("2", [shell()], User="worker", WorkingDir="/work/here")
    script = ["/bin/sh", "-c", "id -u; id -g; pwd; cat /var/run/told/name"]
    told = {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}
    pod = await cluster.pod(
        "p",
        containers=main("app:2", command=script, volumeMounts=[{"name": "told", "mountPath": "/var/run/told"}]),
        volumes=[{"name": "told", **told}],
        restartPolicy="Never",
    )
    await cluster.phase("p", "Succeeded")
    assert lines(root, pod) == ["1234", "2345", "/work/here", "p"]


async def test_a_probe_runs_inside_the_image(images: Layout, cluster: Cluster) -> None:
    probe = {"exec": {"command": ["/bin/sh", "-c", "test -e /bin/env && ! test -e /usr"]}, "periodSeconds": 1}
    await cluster.pod("p", containers=main("app:1", command=["/bin/sleep", "600"], readinessProbe=probe))
    await cluster.until("p", lambda pod: pod.status.containerStatuses and pod.status.containerStatuses[0].ready)


async def test_an_image_that_cannot_be_had_is_waited_for(images: Layout, cluster: Cluster) -> None:
    await cluster.pod("p", containers=main("example.com/none:1"))
    error = "example.com/none:1: not in an image directory, and registry example.com is not configured"
    pod = await cluster.until("p", lambda pod: "ImagePullBackOff" in str(pod.status.containerStatuses))
    waiting = pod.status.containerStatuses[0].state.waiting
    assert waiting is not None
    assert waiting.message == f'Back-off pulling image "example.com/none:1": ErrImagePull: {error}'
    events = await cluster.events("p")
    assert ("Failed", f'Failed to pull image "example.com/none:1": {error}') in events
    assert ("Failed", "Error: ErrImagePull") in events
    assert await cluster.event("p", "BackOff") == 'Back-off pulling image "example.com/none:1"'
    await cluster.event("p", "Failed", "Error: ImagePullBackOff")


@pytest.mark.parametrize("blob", ["index", "manifest", "config", "layer"])
@pytest.mark.parametrize("kind", ["a FIFO", "a device"])
async def test_a_special_file_in_a_layout_fails_the_pull_and_not_the_node(
    node_client: Client, root: Path, clean: None, cluster: Cluster, tmp_path: Path, blob: str, kind: str
) -> None:
    if why := unavailable("bwrap"):
        pytest.skip(why)
    layout = Layout(tmp_path / "images/app")
    blobs = layout.directory / "blobs" / "sha256"
    manifest_file = blobs / layout.add("1", [shell()])[7:]
    manifest = json.loads(manifest_file.read_text())
    digests = {"config": manifest["config"]["digest"], "layer": manifest["layers"][0]["digest"]}
    files = {"index": layout.directory / "index.json", "manifest": manifest_file}
    place = files.get(blob) or blobs / digests[blob][7:]
    place.unlink()
    os.mkfifo(place) if kind == "a FIFO" else place.symlink_to("/dev/zero")
    settings = ImageSettings((tmp_path / "images",), {})
    async with running_agent(node_client, root, runtime="bwrap", images=settings):
        await cluster.pod("p", containers=main("app:1"))
        reason = await cluster.event("p", "Failed", f"expected a regular file, found {kind}")
        assert str(place) in reason


async def test_policies_and_names(images: Layout, cluster: Cluster) -> None:
    await cluster.pod("tried", containers=main("none:1"))
    await cluster.until("tried", lambda pod: "ImagePullBackOff" in str(pod.status.containerStatuses))
    # What one pod could not get is asked for again at once for another, and never for the third.
    await cluster.pod("another", containers=main("none:1"))
    await cluster.event("another", "Pulling")
    await cluster.pod("never", containers=main("none:1", imagePullPolicy="Never"))
    text = 'Container image "none:1" is not present with pull policy of Never'
    assert await cluster.event("never", "ErrImageNeverPull") == text
    await cluster.until("never", lambda pod: "ErrImageNeverPull" in str(pod.status.containerStatuses))
    await cluster.pod("bad", containers=main("No Name"))
    assert await cluster.event("bad", "InspectFailed") == (
        'Failed to apply default image tag "No Name": couldn\'t parse image name "No Name": invalid reference format'
    )
    await cluster.until("bad", lambda pod: "InvalidImageName" in str(pod.status.containerStatuses))


async def test_always_takes_what_the_name_stands_for_now(images: Layout, cluster: Cluster, root: Path) -> None:
    for number in range(2):
        images._manifests.clear()
        images.add("moving", [shell()], Entrypoint=["/bin/sh", "-c", f"echo {number}"])
        pod = await cluster.pod(
            f"p{number}", containers=main("app:moving", imagePullPolicy="Always"), restartPolicy="Never"
        )
        await cluster.phase(f"p{number}", "Succeeded")
        assert lines(root, pod) == [str(number)]


async def test_nothing_of_a_container_is_left(images: Layout, cluster: Cluster, root: Path) -> None:
    await cluster.pod("p", containers=main("app:1", command=["/bin/sh", "-c", "touch /x; exec sleep 600"]))
    await cluster.phase("p", "Running")
    await cluster.delete("p")
    await cluster.gone("p")
    await eventually(lambda: not [*(root / "pods").glob("*")])


async def test_a_pull_secret_opens_a_registry(
    node_client: Client, client: Client, cluster: Cluster, root: Path, clean: None, tmp_path: Path
) -> None:
    from aiohttp import web

    from tests.node.images.test_sources import MadeUpRegistry

    if why := unavailable("bwrap"):
        pytest.skip(why)
    layout = Layout(tmp_path / "source")
    made_up = MadeUpRegistry(layout, layout.add("1.0", [shell()], Entrypoint=["/bin/sh", "-c", "echo in"]), "token")
    runner = web.AppRunner(made_up.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made_up.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    login = base64.b64encode(b"me:secret").decode()
    config = base64.b64encode(json.dumps({"auths": {"https://example.com": {"auth": login}}}).encode()).decode()
    secret = {
        "metadata": {"name": "s"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": config},
    }
    await client.create(Secret, secret, namespace="default")
    settings = ImageSettings((), {"example.com": made_up.url})
    async with running_agent(node_client, root, runtime="bwrap", images=settings):
        await cluster.pod("none", containers=main("example.com/team/app:1.0"))
        assert "pull access denied" in await cluster.event("none", "Failed", "access denied")
        await asyncio.sleep(0)
        await cluster.delete("none", grace=0)
    async with running_agent(node_client, root, runtime="bwrap", images=settings):
        pod = await cluster.pod(
            "p", containers=main("example.com/team/app:1.0"), imagePullSecrets=[{"name": "s"}], restartPolicy="Never"
        )
        await cluster.phase("p", "Succeeded")
        assert lines(root, pod) == ["in"]
    await runner.cleanup()


@pytest.mark.parametrize("runtime", ["process", "fake", "bwrap"])
async def test_without_images_the_pod_is_told_once(
    node_client: Client, cluster: Cluster, root: Path, clean: None, runtime: str
) -> None:
    if why := unavailable(runtime):
        pytest.skip(why)
    async with running_agent(node_client, root, runtime=runtime):
        await cluster.pod(
            "p",
            containers=[
                *main("none", command=["sleep", "600"]),
                {**main("none", command=["sleep", "600"])[0], "name": "two"},
            ],
        )
        await cluster.phase("p", "Running")
        text = await cluster.event("p", "ImageNotUsed")
        how = "without running any process" if runtime == "fake" else "on the host's file system"
        assert text == f"Images are not used: the runtime {runtime} runs containers {how}"
        assert len([reason for reason, _ in await cluster.events("p") if reason == "ImageNotUsed"]) == 1
