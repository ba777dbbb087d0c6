"""Every component on imitations of Kubernetes 1.34 to 1.37: it works there, or says what is missing."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dray.api.gates import FeatureGates
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from dray.assembly.simulated_nodes import SimulationOptions, StandaloneSimulation
from dray.cli import main
from dray.client import Client, SharedInformers
from dray.client.cluster_gates import discover
from dray.client.readiness import Readiness
from dray.controllers import ControllerManager
from dray.scheduler import Scheduler
from dray.scheduler.shadow import ShadowScheduler
from dray.sim.hardware import class_tree, node_tree, slice_trees
from tests.deploy.roles import role
from tests.e2e.objects import claim, pod, template
from tests.permissions import EVERYTHING, allow
from tests.releases import RELEASES, serving
from tests.waiting import eventually, within


async def furnish(client: Client) -> None:
    await client.create(DeviceClass, class_tree())
    tree = node_tree(0, "2024-01-01T00:00:00Z")
    node = await client.create(Node, tree)
    await client.patch(Node, node.metadata.name, {"status": tree["status"]}, subresource="status")
    for piece in slice_trees(0, 2, node.metadata.uid):
        await client.create(ResourceSlice, piece)


@pytest.mark.parametrize("minor", RELEASES)
async def test_scheduler_and_controllers_work_on_each_release_and_report_kinds_that_are_missing(
    minor: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release = RELEASES[minor]
    async with serving(release, monkeypatch, tmp_path) as server:
        await furnish(server.admin)
        await allow(server.admin, "system:kube-controller-manager", EVERYTHING)
        async with (
            server.client("system:kube-scheduler") as near,
            server.client("system:kube-controller-manager") as far,
        ):
            found = await discover(near, FeatureGates())
            assert (found.release, found.gates.all_served) == (f"1.{minor}", release.gates.all_served)
            readiness = Readiness()
            scheduler = Scheduler(near, found.gates, readiness=readiness)
            manager = ControllerManager(far, gates=found.gates, informers=SharedInformers(far))
            tasks = [asyncio.create_task(part.run()) for part in (scheduler, manager)]
            try:
                await within(manager.ready.wait())
                await server.admin.create(Namespace, {"metadata": {"name": "team"}})
                await server.admin.create(ResourceClaimTemplate, template("t", namespace="team"))
                await server.admin.create(Pod, pod("p", templates=["t"], namespace="team"))

                async def placed() -> bool:
                    return bool((await server.admin.get(Pod, "p", "team")).spec.nodeName)

                await eventually(placed)
                [claim] = (await server.admin.list(ResourceClaim, "team")).items
                assert claim.status.allocation is not None
                assert readiness.problems == []
                assert [task for task in tasks if task.done()] == []
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    told = [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    missing = [text.split(":")[0] for text in told if "has no such resource" in text]
    assert {*missing} == {*release.missing}
    assert [text for text in told if "has no such resource" not in text] == []


TOOLS = ("explain pod p", "top devices", "top claims", "lint -f MANIFEST --cluster", "record -o RECORDING", "what-if --drain simulated-0")  # fmt: skip


@pytest.mark.parametrize("minor", RELEASES)
async def test_simulated_nodes_a_shadow_and_tools_work_on_each_release_with_their_roles(
    minor: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {"nodes": "simulated-nodes", "shadow": "shadow", "reader": "reader"}
    async with serving(RELEASES[minor], monkeypatch, tmp_path) as server, AsyncExitStack() as stack:
        for user, name in parts.items():
            await allow(server.admin, user, *role(name))
        near, far, nodes = [
            await stack.enter_async_context(server.client(user))
            for user in ("system:kube-scheduler", "shadow", "nodes")
        ]
        gates = (await discover(nodes, FeatureGates())).gates
        ready, registered = Readiness(), Readiness()
        shadow = ShadowScheduler(far, (await discover(far, FeatureGates())).gates, readiness=ready)
        simulation = StandaloneSimulation(SimulationOptions(simulated=1, devices=2, untainted=True))
        works = (simulation.run(nodes, gates, registered), shadow.run(), Scheduler(near, gates).run())
        tasks = [asyncio.create_task(work) for work in works]
        try:
            await within(asyncio.gather(ready.started(), registered.started()))
            await server.admin.create(ResourceClaim, claim("c"))
            await server.admin.create(Pod, pod("p", claims=["c"]))

            async def runs() -> bool:
                return (await server.admin.get(Pod, "p", "default")).status.phase == "Running"

            await eventually(runs)
            await eventually(lambda: shadow.report().results["same"] == 1)
            told = [await asyncio.to_thread(said, words, server.address, tmp_path, capsys) for words in TOOLS]
            assert [task for task in tasks if task.done()] == []
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert "it runs on simulated-0" in told[0]
    assert "default/c" in told[1]
    assert not [text for text in told if "may not" in text or "Traceback" in text]


def said(words: str, address: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a tool says to the user `reader`."""
    manifest = directory / "manifest.yaml"
    manifest.write_text(json.dumps(claim("new") | {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}))
    config = directory / "kubeconfig"
    named = {
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "reader"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    config.write_text(json.dumps(named))
    words = words.replace("MANIFEST", str(manifest)).replace("RECORDING", str(directory / "recording"))
    main([*words.split(), "--kubeconfig", str(config)])
    told = capsys.readouterr()
    return told.out + told.err


async def test_a_release_that_cannot_serve_extended_resources_is_not_trusted_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A server without the gate would drop the pod's reference to its claim, and the pod would start without devices."""
    async with serving(RELEASES[34], monkeypatch, tmp_path) as server:
        await furnish(server.admin)
        name = f"deviceclass.resource.kubernetes.io/{class_tree()['metadata']['name']}"
        limits = {"resources": {"limits": {name: "1"}}}
        await server.admin.create(Pod, pod("p", containers=[{"name": "main", "image": "app", **limits}]))
        async with server.client("system:kube-scheduler") as client:
            scheduler = Scheduler(client, (await discover(client, FeatureGates())).gates)
            task = asyncio.create_task(scheduler.run())

            async def is_told() -> str:
                conditions = (await server.admin.get(Pod, "p", "default")).status.conditions
                return next((c.message for c in conditions if c.type == "PodScheduled"), "")

            try:
                assert name in await eventually(is_told)
                assert not (await server.admin.list(ResourceClaim)).items
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
