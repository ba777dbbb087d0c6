"""A changing workload for demonstrations: pods with claims come and go, some wait, sometimes a device is tainted.

A group of pods with a shared claim and pods with shares of CPUs are permanent. The sequence is always the same.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import suppress

from dray.api.errors import AlreadyExists, ApiError, NotFound
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceTaintRule, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup
from dray.api.wire import Tree
from dray.client import Client

PROFILE, NODES = "dgx-h100*12,mig-a100*4,cpu*4", 20
GATES = "GenericWorkload=true,WorkloadPodGroupResourceClaimTemplate=true"
_ZONE, _RACK = "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"
_GPU, _MIG = "gpu.nvidia.com", "mig.nvidia.com"
_TEAMS = ("research", "serving", "batch")
_KINDS = {  # claim template → class, count, selector, weight
    "one-gpu": (_GPU, 1, "", 8),
    "four-gpus": (_GPU, 4, 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"', 3),
    "node": (_GPU, 8, 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"', 1),
    "slice": (_MIG, 1, 'device.attributes["gpu.nvidia.com"].profile == "1g.5gb"', 6),
    "two-nodes": (_GPU, 16, "", 1),
}
_GROUP, _MEMBERS = "evaluation", 3
_CORES, _SHARES = "cores", 5
_PODS = 60  # at the same time
_STEP_SECONDS = 0.4
_TAINT_EVERY = 60  # steps
_FIRST_PODS = 45
_SEED = 7


async def keep_busy(client: Client) -> None:
    """Create the demonstration's workload, then create and delete pods until cancelled."""
    chance = random.Random(_SEED)
    await _fill(client)
    for team in _TEAMS:
        await _create(client, Namespace, {"metadata": {"name": team}})
        for name, (class_, count, selector, _) in _KINDS.items():
            await _create(client, ResourceClaimTemplate, _template(team, name, class_, count, selector))
    await _share(client, *_TEAMS[:2])
    alive: list[tuple[str, str]] = []
    for number in itertools.count():
        with suppress(ApiError):
            if len(alive) < _PODS:
                alive.append(await _come(client, chance, number))
            if len(alive) >= _PODS or chance.random() < 0.4:
                await _go(client, alive.pop(chance.randrange(len(alive))))
            if number % _TAINT_EVERY == _TAINT_EVERY - 1:
                await _taint(client, chance)
        await asyncio.sleep(0.01 if number < _FIRST_PODS else _STEP_SECONDS)


async def _fill(client: Client) -> None:
    """Label the nodes with zones and racks."""
    nodes: tuple[Node, ...] = ()
    while len(nodes) < NODES:
        nodes = (await client.list(Node)).items
        await asyncio.sleep(0.1)
    for number, node in enumerate(sorted(nodes, key=lambda node: node.metadata.name)):
        labels = {_ZONE: f"zone-{'ab'[number % 2]}", _RACK: f"rack-{number % 2 * 3 + number // 2 % 3 + 1}"}
        await client.patch(Node, node.metadata.name, {"metadata": {"labels": labels}})


async def _share(client: Client, grouped: str, sharing: str) -> None:
    """Create a group of pods that shares one claim, and pods with shares of the same CPUs."""
    entry = {"name": "devices", "resourceClaimTemplateName": "slice"}
    spec = {"schedulingPolicy": {"gang": {"minCount": _MEMBERS}}, "resourceClaims": [entry]}
    await _create(client, PodGroup, {"metadata": {"name": _GROUP, "namespace": grouped}, "spec": spec})
    for number in range(_MEMBERS):
        member = _pod(grouped, f"{_GROUP}-{number}", "slice")
        member["spec"]["schedulingGroup"] = {"podGroupName": _GROUP}
        await _create(client, Pod, member)
    template = _template(sharing, _CORES, "dra.cpu", 1, "")
    request = template["spec"]["spec"]["devices"]["requests"][0]
    request["exactly"]["capacity"] = {"requests": {"dra.cpu/cpu": "6"}}
    await _create(client, ResourceClaimTemplate, template)
    for number in range(_SHARES):
        await _create(client, Pod, _pod(sharing, f"{_CORES}-{number}", _CORES))


async def _come(client: Client, chance: random.Random, number: int) -> tuple[str, str]:
    """Create a random pod. Returns its namespace and name."""
    team = chance.choice(_TEAMS)
    kind = chance.choices([*_KINDS], [weight for *_, weight in _KINDS.values()])[0]
    name = f"{kind}-{number}"
    await client.create(Pod, _pod(team, name, kind))
    return team, name


async def _go(client: Client, pod: tuple[str, str]) -> None:
    with suppress(NotFound):
        await client.delete(Pod, pod[1], pod[0], grace=0)


async def _taint(client: Client, chance: random.Random) -> None:
    """Taint a random device, and remove the previous taint."""
    with suppress(NotFound):
        await client.delete(DeviceTaintRule, "maintenance")
    selector = {"driver": _GPU, "pool": f"dgx-h100-{chance.randrange(12)}", "device": f"gpu-{chance.randrange(8)}"}
    taint = {"key": "example.com/maintenance", "value": "yes", "effect": "NoSchedule"}
    await _create(
        client,
        DeviceTaintRule,
        {"metadata": {"name": "maintenance"}, "spec": {"deviceSelector": selector, "taint": taint}},
    )


def _pod(team: str, name: str, kind: str) -> Tree:
    return {
        "metadata": {"name": name, "namespace": team, "labels": {"app": kind}},
        "spec": {
            "containers": [{"name": "work", "image": "work", "resources": {"claims": [{"name": "devices"}]}}],
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": kind}],
        },
    }


def _template(team: str, name: str, class_: str, count: int, selector: str) -> Tree:
    exactly: Tree = {"deviceClassName": class_, "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    spec = {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}
    return {"metadata": {"name": name, "namespace": team}, "spec": {"spec": spec}}


async def _create(client: Client, type_: type, tree: Tree) -> None:
    with suppress(AlreadyExists):
        await client.create(type_, tree)
