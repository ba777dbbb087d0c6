"""StatefulSets on a real server, with nodes that are played: order, identity, volumes, rollouts and their history."""

from __future__ import annotations

from typing import Any

from dray.api.types.apps import ControllerRevision, DaemonSet, StatefulSet
from dray.api.types.core import Node, PersistentVolumeClaim, Pod
from dray.client import Client
from dray.controllers.workloads.daemonsets import DaemonSetController
from dray.controllers.workloads.history import revision_hash
from dray.controllers.workloads.statefulsets import StatefulSetController
from tests.controllers.conftest import Start, quiet
from tests.controllers.workloads.conftest import NAMESPACE, Kubelets, becomes, pods, template

CLAIM = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip


async def create(client: Client, **spec: Any) -> StatefulSet:
    wanted = {"selector": {"matchLabels": {"app": "web"}}, "serviceName": "s", "template": template(), **spec}
    return await client.create(StatefulSet, {"metadata": {"name": "web"}, "spec": wanted}, namespace=NAMESPACE)


async def change(client: Client, **spec: Any) -> None:
    await client.patch(StatefulSet, "web", {"spec": spec}, NAMESPACE)


async def names(client: Client) -> list[str]:
    return sorted(pod.metadata.name for pod in await pods(client))


async def values(client: Client) -> list[str]:
    found = sorted(await pods(client), key=lambda pod: pod.metadata.name)
    return [pod.spec.containers[0].env[0].value for pod in found]


async def status(client: Client) -> tuple[int, int, int]:
    found = (await client.get(StatefulSet, "web", NAMESPACE)).status
    return found.replicas, found.readyReplicas, found.updatedReplicas


async def test_pods_come_in_order_with_names_numbers_and_volumes(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    kubelets.holds = lambda pod: pod.metadata.name == "web-1"
    await create(client, replicas=3, volumeClaimTemplates=[CLAIM])
    async with start(StatefulSetController):
        await becomes(lambda: names(client), ["web-0", "web-1"])
        await quiet()
        assert await names(client) == ["web-0", "web-1"]  # the third waits for the second
        kubelets.holds = lambda pod: False
        kubelets.look()
        await becomes(lambda: status(client), (3, 3, 3))
    pod = await client.get(Pod, "web-2", NAMESPACE)
    assert pod.metadata.labels["statefulset.kubernetes.io/pod-name"] == "web-2"
    assert pod.metadata.labels["apps.kubernetes.io/pod-index"] == "2"
    assert (pod.spec.hostname, pod.spec.subdomain) == ("web-2", "s")
    volume = next(volume for volume in pod.spec.volumes if volume.name == "data")
    assert volume.persistentVolumeClaim is not None
    assert volume.persistentVolumeClaim.claimName == "data-web-2"
    claims = (await client.list(PersistentVolumeClaim, NAMESPACE)).items
    assert sorted(claim.metadata.name for claim in claims) == ["data-web-0", "data-web-1", "data-web-2"]


async def test_it_shrinks_from_the_highest_down(client: Client, start: Start, kubelets: Kubelets) -> None:
    await create(client, replicas=3, podManagementPolicy="Parallel")
    async with start(StatefulSetController):
        await becomes(lambda: status(client), (3, 3, 3))
        await change(client, replicas=1)
        await becomes(lambda: names(client), ["web-0"])


async def test_a_rollout_stops_at_the_partition_and_can_be_undone(
    client: Client, start: Start, kubelets: Kubelets
) -> None:
    await create(client, replicas=3)
    async with start(StatefulSetController):
        await becomes(lambda: status(client), (3, 3, 3))
        await change(
            client,
            template=template(value="2"),
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
        )
        await becomes(lambda: values(client), ["1", "1", "2"])
        await change(client, updateStrategy={"rollingUpdate": {"partition": 0}})
        await becomes(lambda: values(client), ["2", "2", "2"])

        async def current() -> bool:
            found = (await client.get(StatefulSet, "web", NAMESPACE)).status
            return found.currentRevision == found.updateRevision

        await becomes(current, True)
        revisions = (await client.list(ControllerRevision, NAMESPACE)).items
        assert sorted(revision.revision for revision in revisions) == [1, 2]
        first = min(revisions, key=lambda revision: revision.revision)
        assert first.metadata.name == f"web-{revision_hash(first.data, 0)}"
        await change(client, template=first.data["spec"]["template"] | {"$patch": None})
        await becomes(lambda: values(client), ["1", "1", "1"])
        numbers = {r.metadata.name: r.revision for r in (await client.list(ControllerRevision, NAMESPACE)).items}
        assert numbers[first.metadata.name] == 3


async def test_daemon_sets_remember_their_templates(client: Client, start: Start, kubelets: Kubelets) -> None:
    await client.create(Node, {"metadata": {"name": "node-1"}})
    tree = {
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template()},
    }
    await client.create(DaemonSet, tree, namespace=NAMESPACE)
    async with start(DaemonSetController):
        await becomes(lambda: values(client), ["1"])
        await client.patch(DaemonSet, "agent", {"spec": {"template": template(value="2")}}, NAMESPACE)
        await becomes(lambda: values(client), ["2"])
        revisions = (await client.list(ControllerRevision, NAMESPACE)).items
        assert sorted(revision.revision for revision in revisions) == [1, 2]
        (pod,) = await pods(client)
        latest = max(revisions, key=lambda revision: revision.revision)
        assert latest.metadata.name == f"agent-{pod.metadata.labels['controller-revision-hash']}"
        assert latest.metadata.labels["app"] == "web"
