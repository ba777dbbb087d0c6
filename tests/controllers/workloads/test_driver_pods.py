"""A whole small cluster: the ReplicaSet that Kubernetes' end-to-end tests run drivers with becomes available."""

from __future__ import annotations

import asyncio

from dray.api.gates import FeatureGates
from dray.api.types.apps import ReplicaSet
from dray.client import Client, SharedInformers
from dray.controllers.workloads.replicasets import ReplicaSetController
from dray.scheduler import Scheduler
from dray.sim import SimulatedNodes
from tests.controllers.conftest import Start, quiet
from tests.controllers.workloads.conftest import NAMESPACE, becomes, pods

NODES = ["node-0", "node-1", "node-2"]
LABELS = {"app.kubernetes.io/instance": "driver"}


def driver_set(replicas: int) -> dict[str, object]:
    """Privileged pods, one a node: kept to nodes by host name, and apart by host name."""
    own_node = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
    hosts = {"key": "kubernetes.io/hostname", "operator": "In", "values": NODES}
    container = {
        "name": "pause",
        "image": "registry.example/pause",
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "plugins", "mountPath": "/plugins"}],
    }
    spec = {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own_node]},
        },
        "containers": [container],
        "volumes": [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/plugins", "type": "DirectoryOrCreate"}}],
    }
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return {
        "metadata": {"name": "driver"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template},
    }


async def test_a_set_of_driver_pods_becomes_available_one_on_each_node(client: Client, start: Start) -> None:
    informers = SharedInformers(client)
    nodes = SimulatedNodes(client, informers, len(NODES), 0)
    scheduler = Scheduler(client, FeatureGates(), informers=informers)
    await informers.start()
    await informers.synced()
    tasks = [asyncio.create_task(part.run()) for part in (nodes, scheduler)]
    await client.create(ReplicaSet, driver_set(len(NODES)), namespace=NAMESPACE)

    async def available() -> int:
        return (await client.get(ReplicaSet, "driver", NAMESPACE)).status.availableReplicas

    async with start(ReplicaSetController):
        await becomes(available, 3)
        assert sorted(pod.spec.nodeName for pod in await pods(client)) == NODES
        await client.patch(ReplicaSet, "driver", {"spec": {"replicas": 4}}, NAMESPACE)
        await quiet()  # there is no fourth node
        assert await available() == 3
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await informers.stop()
