"""`dray scheduler`: alone, against a server in another process."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.client import Client
from dray.client.config import load
from dray.client.http import Http
from dray.sim.hardware import class_tree, node_tree, slice_trees
from tests.cli.components import counts, fetched, node_of, server
from tests.cli.running import Dray, outcome
from tests.e2e.objects import claim, pod
from tests.waiting import eventually


async def furnish(client: Client, nodes: int) -> None:
    """Nodes with devices, which nobody plays."""
    await client.create(DeviceClass, class_tree())
    for number in range(nodes):
        tree = node_tree(number, "2024-01-01T00:00:00Z")
        node = await client.create(Node, tree)
        await client.patch(Node, node.metadata.name, {"status": tree["status"]}, subresource="status")
        for piece in slice_trees(number, 2, node.metadata.uid):
            await client.create(ResourceSlice, piece)


def configuration(path: Path, *profiles: dict[str, Any]) -> Path:
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles),
    }
    path.write_text(yaml.safe_dump(tree))
    return path


async def test_it_places_pods_of_its_profiles_and_tells_how_it_is(tmp_path: Path) -> None:
    file = configuration(
        tmp_path / "config.yaml",
        {
            "schedulerName": "mine",
            "pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": "2s"}}],
        },
    )
    with server(tmp_path) as kubeconfig:
        async with Http(load(str(kubeconfig))) as client:
            await furnish(client, 2)
            await client.create(ResourceClaim, claim("gpu"))
            await client.create(Pod, pod("p", claims=["gpu"], schedulerName="mine"), namespace="default")
            await client.create(Pod, pod("other"), namespace="default")
            arguments = ("--kubeconfig", kubeconfig, "--config", file, "--port", "0", "-v", "4")
            with Dray("scheduler", *arguments) as scheduler:

                async def placed() -> bool:
                    return bool(await node_of(client, "p"))

                await eventually(placed)
                assert fetched(scheduler, "/healthz") == "ok"
                await counts(scheduler, 'scheduler_schedule_attempts_total{profile="mine",result="scheduled"} 1.0')
                allocated = 'kube_resourceclaim_status_allocated{namespace="default",resourceclaim="gpu"} 1.0'
                assert allocated in fetched(scheduler, "/metrics/resources")
                assert await node_of(client, "other") == ""
                assert scheduler.stop(signal.SIGTERM) == 0
                assert scheduler.process.stderr is not None
                assert "pod default/p goes to node node-" in scheduler.process.stderr.read()


async def test_it_says_which_rule_was_asked_about_which_node(tmp_path: Path) -> None:
    with server(tmp_path) as kubeconfig:
        async with Http(load(str(kubeconfig))) as client:
            await furnish(client, 3)
            await client.patch(Node, "node-1", {"spec": {"unschedulable": True}})
            await client.create(Pod, pod("p", nodeSelector={"kubernetes.io/hostname": "node-2"}), namespace="default")
            said = []
            for verbosity in ("5", "4"):
                with Dray("scheduler", "--kubeconfig", kubeconfig, "--port", "-1", "-v", verbosity) as scheduler:

                    async def placed() -> bool:
                        return bool(await node_of(client, "p"))

                    await eventually(placed)
                    scheduler.stop(signal.SIGTERM)
                    assert scheduler.process.stderr is not None
                    said.append(scheduler.process.stderr.read())
                await client.delete(Pod, "p", "default", grace=0)
                await client.create(
                    Pod, pod("p", nodeSelector={"kubernetes.io/hostname": "node-2"}), namespace="default"
                )
    why, short = said
    for line in (
        "pod default/p: NodeUnschedulable refuses (node(s) were unschedulable) node-1\n",
        "pod default/p: NodeUnschedulable accepts node-0, node-2\n",
        "pod default/p: NodeAffinity refuses (node(s) didn't match Pod's node affinity/selector) node-0\n",
        "pod default/p: NodeAffinity accepts node-2\n",
        "pod default/p: NodeResourcesFit accepts node-2\n",
    ):
        assert line in why
        assert line not in short
    assert "InterPodAffinity" not in why  # the pod asks for nothing that this rule looks at


async def test_a_second_one_waits_until_the_first_is_gone(tmp_path: Path) -> None:
    with server(tmp_path) as kubeconfig:
        async with Http(load(str(kubeconfig))) as client:
            await furnish(client, 1)
            options = ("--kubeconfig", kubeconfig, "--port", "-1", "-v", "4")

            async def place(name: str) -> None:
                await client.create(Pod, pod(name), namespace="default")
                await eventually(lambda: node_of(client, name))

            with Dray("scheduler", *options) as first:
                await place("o")
                with Dray("scheduler", *options) as second:
                    await place("p")
                    assert first.stop(signal.SIGTERM) == 0  # gives the lease back
                    await place("q")
                    assert second.stop(signal.SIGINT) == 0
                    said = [_stderr(process.process) for process in (first, second)]
    assert ["default/p goes" in text for text in said] == [True, False]
    assert ["default/q goes" in text for text in said] == [False, True]


def _stderr(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.read()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not valid YAML: line 2, column 1"),
        ("kind: Pod", "expected apiVersion kubescheduler.config.k8s.io/v1"),
        (
            "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: 3}",
            "profiles: expected a list, got int",
        ),
        (
            "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
            "profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: soon}}]}]}",
            "filterTimeout: expected a duration such as 10s, got 'soon'",
        ),
    ],
)
def test_a_bad_configuration_is_explained(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    code, said = outcome("scheduler", "--config", file, "--kubeconfig", tmp_path / "none")
    assert code == 2
    assert said.startswith(f"dray scheduler: {file}: ")
    assert expected in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["--config", "/nonexistent/config"], 2, "No such file or directory"),
        (["--kubeconfig", "/nonexistent/kubeconfig"], 2, "/nonexistent/kubeconfig"),
        (["--feature-gates", "Nope=true"], 1, "unrecognized feature gate: Nope"),
    ],
)
def test_options_that_make_no_sense_are_explained(arguments: list[str], status: int, expected: str) -> None:
    code, said = outcome("scheduler", *arguments)
    assert code == status
    assert expected in said
    assert "Traceback" not in said
