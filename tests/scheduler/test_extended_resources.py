"""Pods that ask for extended resources which devices serve: the claim that is made, and everything that ends it."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import Forbidden, NotFound
from dray.api.extended_resources import ANNOTATION
from dray.api.reasons.nodes import NodeCode
from dray.api.reasons.wording import Phrase, say
from dray.api.types.core import Node, Pod, ResourceQuota
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.core.configuration import Configuration, SchedulerProfile
from dray.sim.hardware import CLASS, DRIVER
from tests.e2e.cluster import CONTROLLERS, NODES, SCHEDULER, SECOND_SCHEDULER, Cluster, cluster
from tests.e2e.interference import Hold, Write
from tests.e2e.objects import claim, device, on_node, pod
from tests.saying import refused

GPU = "example.com/gpu"
IMPLICIT = f"deviceclass.resource.kubernetes.io/{CLASS}"
OFF = "DRAExtendedResource=false"


def asking(name: str, amount: str = "1", resource: str = GPU, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"limits": {resource: amount}}}
    return pod(name, **more) | {"spec": {**pod(name, **more)["spec"], "containers": [container]}}


async def serve(c: Cluster, name: str | None = GPU) -> None:
    """Let the class of the simulated devices serve a resource, or none."""

    async def there() -> bool:
        return any(one.metadata.name == CLASS for one in (await c.client.list(DeviceClass)).items)

    await c.eventually(there)
    await c.client.patch(DeviceClass, CLASS, {"spec": {"extendedResourceName": name}})


async def special(c: Cluster, name: str) -> ResourceClaim:
    status = (await c.pod(name)).status.extendedResourceClaimStatus
    assert status is not None
    return await c.claim(status.resourceClaimName)


async def no_claims(c: Cluster) -> None:
    async def none() -> bool:
        return not await c.claims()

    await c.eventually(none)


async def test_a_pod_gets_devices_through_a_claim_of_its_own() -> None:
    async with cluster(nodes=1, devices=2) as c:
        await serve(c)
        await c.create(Pod, asking("p", "2"))
        running = await c.runs("p")
        made = await special(c, "p")
        assert made.metadata.generateName == "p-extended-resources-"
        assert made.metadata.name.startswith("p-extended-resources-")
        assert made.metadata.annotations == {ANNOTATION: "true"}
        [owner] = made.metadata.ownerReferences
        assert (owner.kind, owner.uid, owner.controller, owner.blockOwnerDeletion) == (
            "Pod",
            running.metadata.uid,
            True,
            None,
        )
        [request] = made.spec.devices.requests or ()
        assert (request.name, request.exactly and request.exactly.count) == ("container-0-request-0", 2)
        assert [r.name for r in made.status.reservedFor] == ["p"]
        status = running.status.extendedResourceClaimStatus
        assert status is not None
        [mapping] = status.requestMappings
        assert (mapping.containerName, mapping.resourceName, mapping.requestName) == ("main", GPU, request.name)
        await c.create(Pod, asking("q"))
        assert refused(NodeCode.CANNOT_ALLOCATE) in await c.waits("q")
        await c.delete(Pod, "p")
        await c.runs("q")


async def test_every_class_serves_a_resource_of_its_name() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await c.create(Pod, asking("p", resource=IMPLICIT))
        await c.runs("p")
        assert (await special(c, "p")).status.allocation is not None


async def test_a_finished_pod_gives_everything_back() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await serve(c)
        await c.create(Pod, asking("p", restartPolicy="Never"))
        await c.runs("p")
        await c.client.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        await no_claims(c)
        await c.create(Pod, asking("q"))
        await c.runs("q")


async def test_a_device_plugin_serves_its_nodes_and_devices_the_others() -> None:
    async with cluster(nodes=2, devices=1) as c:
        await serve(c)
        await c.client.patch(
            Node, "node-0", {"status": {"capacity": {GPU: "2"}, "allocatable": {GPU: "2"}}}, subresource="status"
        )
        for number in range(3):
            await c.create(Pod, asking(f"p{number}"))
        await c.runs("p0", "p1", "p2")
        pods = [await c.pod(f"p{number}") for number in range(3)]
        by_devices = [one.spec.nodeName for one in pods if one.status.extendedResourceClaimStatus is not None]
        by_plugin = [one.spec.nodeName for one in pods if one.status.extendedResourceClaimStatus is None]
        assert (by_devices, by_plugin) == (["node-1"], ["node-0", "node-0"])
        await c.create(Pod, asking("p3"))
        said = await c.waits("p3")
        assert refused(NodeCode.INSUFFICIENT, subject=GPU) in said
        assert refused(NodeCode.CANNOT_ALLOCATE) in said


async def test_a_class_that_comes_to_serve_a_name_wakes_pods_up_and_one_that_loses_it_stops_them() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await serve(c, None)
        await c.create(Pod, asking("p"))
        assert refused(NodeCode.INSUFFICIENT, subject=GPU) in await c.waits("p")
        await serve(c)
        await c.runs("p")
        await c.create(Pod, asking("q"))
        await c.waits("q", say(NodeCode.CANNOT_ALLOCATE))
        await serve(c, None)
        await c.waits("q", say(NodeCode.INSUFFICIENT, subject=GPU))
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")
        await no_claims(c)
        assert (await c.pod("q")).spec.nodeName == ""
        await serve(c)
        await c.runs("q")


async def test_what_is_left_over_of_an_earlier_attempt_is_deleted_first() -> None:
    async with cluster(nodes=1, devices=1, parts=(CONTROLLERS, NODES)) as c:
        await serve(c)
        made = await c.create(Pod, asking("p"))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made.metadata.uid, "controller": True}
        old = claim("old") | {
            "metadata": {
                "name": "old",
                "namespace": "default",
                "annotations": {ANNOTATION: "true"},
                "ownerReferences": [owner],
            }
        }
        await c.create(ResourceClaim, old)
        await c.start(SCHEDULER)
        said = say(Phrase.ALL_NODES, nodes=1, why=refused(NodeCode.EXTENDED_LEFT_OVER))
        assert await c.told("p", "FailedScheduling", say(Phrase.DELETED)) == f"{said} {say(Phrase.DELETED)}"
        await c.runs("p")
        await c.gone(ResourceClaim, "old")
        assert len(await c.claims()) == 1


async def test_a_binding_that_fails_takes_the_claim_along() -> None:
    failures = 0

    async def fail_first(write: Write) -> None:
        nonlocal failures
        if write.subresource == "binding" and failures == 0:
            failures += 1
            raise NotFound("node is gone")

    async with cluster(nodes=1, devices=1, parts=(CONTROLLERS, NODES)) as c:
        c.hooks[SCHEDULER] = fail_first
        await c.start(SCHEDULER)
        await serve(c)
        await c.create(Pod, asking("p"))
        await c.runs("p")
        assert failures == 1
        assert [one.metadata.name for one in await c.claims()] == [(await special(c, "p")).metadata.name]


async def test_a_pod_that_another_scheduler_binds_meanwhile_is_given_no_claim() -> None:
    async with cluster(nodes=1, devices=1, parts=(CONTROLLERS, NODES)) as c:

        async def bind() -> None:
            target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-0"}}
            await c.client.create(Pod, target, namespace="default", name="p", subresource="binding")

        makes_claim = Hold(lambda write: write.verb == "create" and write.type is ResourceClaim)
        c.hooks[SCHEDULER] = makes_claim
        await serve(c)
        await c.start(SCHEDULER)
        await c.create(Pod, asking("p"))
        await makes_claim.reached()
        await bind()
        makes_claim.go()
        await c.eventually(lambda: deleted(makes_claim))
        await no_claims(c)
        found = await c.pod("p")
        assert found.spec.nodeName == "node-0"
        assert found.status.extendedResourceClaimStatus is None


async def deleted(hold: Hold) -> bool:
    """Whether a scheduler has deleted the claim that it made."""
    return any(write.verb == "delete" and write.type is ResourceClaim for write in hold.seen)


async def test_devices_that_must_be_made_ready_and_fail_are_given_back_with_their_claim() -> None:
    conditions = {"bindingConditions": ["a.b/ready"], "bindingFailureConditions": ["a.b/failed"]}
    async with cluster(nodes=1, devices=1, parts=(CONTROLLERS, NODES)) as c:
        c.configurations[SCHEDULER] = Configuration({"default-scheduler": SchedulerProfile(binding_timeout=1.0)})
        await serve(c)
        await c.start(SCHEDULER)
        devices = [device("gpu-0") | conditions]
        await c.client.patch(ResourceSlice, f"node-0-{DRIVER}-0", {"spec": {"devices": devices}})
        await c.create(Pod, asking("p"))
        await c.told("p", "FailedScheduling", say(Phrase.DEVICES_LATE, claim="p-extended-resources-"))
        await c.delete(Pod, "p")
        await no_claims(c)


async def test_a_taint_that_evicts_reaches_pods_through_their_extended_resources() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await serve(c)
        await c.create(Pod, asking("p"))
        await c.runs("p")
        tainted = device("gpu-0") | {"taints": [{"key": "broken", "effect": "NoExecute"}]}
        await c.client.patch(ResourceSlice, f"node-0-{DRIVER}-0", {"spec": {"devices": [tainted]}})
        await c.told("p", "DeviceTaintManagerEviction")
        await c.gone(Pod, "p")
        await no_claims(c)


async def test_own_claims_and_extended_resources_are_served_on_one_node() -> None:
    async with cluster(nodes=2, devices=2) as c:
        await serve(c)
        await c.create(ResourceClaim, claim("c"))
        await c.create(Pod, asking("one", claims=["c"]))
        node = (await c.runs("one")).spec.nodeName
        allocations = [one.status.allocation for one in await c.claims()]
        assert {one.devices.results[0].pool for one in allocations if one is not None} == {node}
        assert len(allocations) == 2


async def test_without_the_gate_names_are_dropped_and_resources_need_a_plugin(tmp_path: Any) -> None:
    store = f"sqlite:{tmp_path / 'state.db'}"
    async with cluster(nodes=1, devices=2, store=store) as c:
        await serve(c)
        await c.create(Pod, asking("p"))
        await c.runs("p")
    async with cluster(nodes=1, devices=2, store=store, gates=OFF) as c:
        await c.create(DeviceClass, {"metadata": {"name": "new"}, "spec": {"extendedResourceName": "example.com/new"}})
        assert (await c.client.get(DeviceClass, "new")).spec.extendedResourceName is None
        assert (await c.client.get(DeviceClass, CLASS)).spec.extendedResourceName == GPU
        assert (await c.pod("p")).status.extendedResourceClaimStatus is not None
        await c.create(Pod, asking("q"))
        assert refused(NodeCode.INSUFFICIENT, subject=GPU) in await c.waits("q")
        await c.delete(Pod, "p")
        await c.gone(Pod, "p")
        await no_claims(c)
    async with cluster(nodes=1, devices=2, store=store) as c:
        await c.runs("q")
        await c.create(Pod, asking("r"))
        await c.runs("r")


@pytest.mark.parametrize("node", ["node-0", "node-1"])
async def test_two_resources_are_served_in_different_ways_on_one_node(node: str) -> None:
    other = "example.com/other"
    async with cluster(nodes=2, devices=1) as c:
        await serve(c)
        for name in ("node-0", "node-1"):
            amounts = {other: "1"} if name == "node-0" else {other: "1", GPU: "1"}
            await c.client.patch(
                Node, name, {"status": {"capacity": amounts, "allocatable": amounts}}, subresource="status"
            )
        wanted = asking("p", **on_node(node))
        wanted["spec"]["containers"][0]["resources"]["limits"][other] = "1"
        await c.create(Pod, wanted)
        placed = await c.runs("p")
        assert (placed.status.extendedResourceClaimStatus is not None) == (node == "node-0")


async def test_a_quota_counts_what_is_asked_for_in_either_way() -> None:
    async with cluster(nodes=1, devices=4) as c:
        await serve(c)
        hard = {f"requests.{GPU}": "2", f"{CLASS}.deviceclass.resource.k8s.io/devices": "2"}
        tree = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}
        await c.create(ResourceQuota, tree)
        await c.create(Pod, asking("p"))
        await c.runs("p")

        async def counted() -> dict[str, str]:
            return (await c.client.get(ResourceQuota, "q", "default")).status.used

        assert await counted() == dict.fromkeys(hard, "1")  # the claim adds nothing to what the pod counts for
        await c.create(ResourceClaim, claim("c"))
        assert await counted() == dict.fromkeys(hard, "2")
        with pytest.raises(Forbidden, match=f"exceeded quota: q, requested: requests.{GPU}=1"):
            await c.create(Pod, asking("q"))
        await serve(c, None)

        async def counts_for_devices_alone() -> bool:
            return (await counted())[f"requests.{GPU}"] == "1"

        await c.eventually(counts_for_devices_alone)
        await c.delete(ResourceClaim, "c")
        await c.delete(Pod, "p")

        async def freed() -> bool:
            return await counted() == dict.fromkeys(hard, "0")

        await c.eventually(freed)


async def test_a_resource_that_nothing_serves_keeps_a_pod_out_whatever_serves_its_others() -> None:
    async with cluster(nodes=1, devices=1, parts=(CONTROLLERS, NODES)) as c:
        profile = SchedulerProfile(disabled_filters=frozenset({"NodeResourcesFit"}))
        c.configurations[SCHEDULER] = Configuration({"default-scheduler": profile})
        await serve(c)
        await c.start(SCHEDULER)
        wanted = asking("p")
        wanted["spec"]["containers"][0]["resources"]["limits"]["example.com/none"] = "1"
        await c.create(Pod, wanted)
        await c.waits("p", say(Phrase.ALL_NODES, nodes=1, why=refused(NodeCode.EXTENDED_UNKNOWN)))


async def test_two_schedulers_leave_each_pod_one_claim_and_each_device_one_pod() -> None:
    async with cluster(nodes=3, devices=4) as c:
        await serve(c)
        await c.start(SECOND_SCHEDULER)
        names = [f"p{number}" for number in range(12)]
        for name in names:
            await c.create(Pod, asking(name))
        await c.runs(*names)

        async def settled() -> bool:
            return len(await c.claims()) == len(names)

        await c.eventually(settled)
        named = [(await special(c, name)).metadata.name for name in names]
        assert sorted(named) == sorted(one.metadata.name for one in await c.claims())
