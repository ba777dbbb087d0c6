"""Devices that are partitioned, shared, computed or spread over nodes, each together with something else."""

from __future__ import annotations

from typing import Any

from dray.api.extended_resources import IMPLICIT_PREFIX
from dray.api.reasons.nodes import NodeCode
from dray.api.types.core import Namespace, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.objects import alternatives, claim, device_class, pod, request, slice_of, template
from tests.saying import refused

DRIVER, OTHER = "x.example.com", "y.example.com"
FULL = refused(NodeCode.CANNOT_ALLOCATE, 1)


async def devices_of(c: Cluster, name: str) -> list[str]:
    allocation = (await c.claim(name)).status.allocation
    assert allocation is not None
    return [result.device for result in allocation.devices.results]


def shareable(name: str, much: str, **policy: Any) -> dict[str, Any]:
    capacity = {"units": {"value": much, **({"requestPolicy": policy} if policy else {})}}
    return {"name": name, "allowMultipleAllocations": True, "capacity": capacity}


def units(number: str, **more: Any) -> dict[str, Any]:
    return request(class_="x", capacity={"requests": {"units": number}}, **more)


async def publish(c: Cluster, *devices: dict[str, Any], **spec: Any) -> None:
    tree = slice_of("x", "node-0", *devices, driver=DRIVER, count=2 if "counters" in spec else 1)
    counters = spec.pop("counters", None)
    if counters:
        own = slice_of("x-counters", "node-0", driver=DRIVER, count=2)
        own["spec"]["sharedCounters"] = counters
        del own["spec"]["devices"]
        await c.create(ResourceSlice, own)
    if spec:
        del tree["spec"]["nodeName"]
    tree["spec"] |= spec
    await c.create(ResourceSlice, tree)
    await c.create(DeviceClass, device_class("x", f'device.driver == "{DRIVER}"'))


async def test_all_devices_are_not_to_be_had_while_one_of_them_is_used_up() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await publish(c, shareable("a", "10"), shareable("b", "10"))
        await c.create(ResourceClaim, claim("one", units("8")), claim("all", units("3", allocationMode="All")))
        await c.create(Pod, pod("one", claims=["one"]))
        await c.runs("one")
        await c.create(Pod, pod("all", claims=["all"]))
        await c.waits("all", FULL)
        await c.delete(Pod, "one")
        await c.delete(ResourceClaim, "one")
        await c.runs("all")
        assert await devices_of(c, "all") == ["a", "b"]


async def test_alternatives_are_tried_by_the_policy_of_each_device() -> None:
    async with cluster(nodes=1, devices=1) as c:
        coarse = shareable("coarse", "8", default="4", validValues=["4", "8"])
        fine = shareable("fine", "8", default="1", validRange={"min": "1", "step": "1"})
        await publish(c, coarse, fine)

        def of(device: str, number: str) -> dict[str, Any]:
            own = "4" if device == "coarse" else "1"
            policy = f'device.capacity["{DRIVER}"].units.compareTo(quantity("{own}")) >= 0'
            return {**units(number, selector=policy), "name": f"{device}-{number}"}

        for at in range(3):
            wanted = alternatives(of("coarse", "9"), of("coarse", "3"), of("fine", "2"))
            await c.create(ResourceClaim, claim(f"c{at}", wanted))
            await c.create(Pod, pod(f"p{at}", claims=[f"c{at}"]))
            await c.runs(f"p{at}")
        consumed = []
        for at in range(3):
            allocation = (await c.claim(f"c{at}")).status.allocation
            assert allocation is not None
            [result] = allocation.devices.results
            consumed.append((result.request, result.device, result.consumedCapacity["units"]))
        assert consumed == [
            ("r/coarse-3", "coarse", "4"),
            ("r/coarse-3", "coarse", "4"),
            ("r/coarse-3", "fine", "3"),
        ]


async def test_admin_access_to_a_shared_device_takes_nothing_of_it() -> None:
    async with cluster(nodes=1, devices=1) as c:
        await publish(c, shareable("a", "10"))
        label = {"resource.kubernetes.io/admin-access": "true"}
        await c.client.patch(Namespace, "default", {"metadata": {"labels": label}})
        await c.create(ResourceClaim, claim("admin", units("1", adminAccess=True)), claim("whole", units("10")))
        await c.create(Pod, pod("admin", claims=["admin"]))
        await c.runs("admin")
        await c.create(Pod, pod("whole", claims=["whole"]))
        await c.runs("whole")
        await c.create(ResourceClaim, claim("more", units("1")))
        await c.create(Pod, pod("more", claims=["more"]))
        await c.waits("more", FULL)


async def test_a_shared_partition_draws_on_its_counters_once() -> None:
    async with cluster(nodes=1, devices=1) as c:
        counters = [{"name": "gpu", "counters": {"memory": {"value": "4"}}}]
        drawn = {"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": "3"}}}]}
        await publish(c, {**shareable("big", "10"), **drawn}, {**shareable("other", "10"), **drawn}, counters=counters)
        for at in range(2):
            await c.create(ResourceClaim, claim(f"c{at}", units("5")))
            await c.create(Pod, pod(f"p{at}", claims=[f"c{at}"]))
            await c.runs(f"p{at}")
            assert await devices_of(c, f"c{at}") == ["big"]
        await c.create(ResourceClaim, claim("late", units("1")))
        await c.create(Pod, pod("late", claims=["late"]))
        await c.waits("late", FULL)
        for at in range(2):
            await c.delete(Pod, f"p{at}")
            await c.delete(ResourceClaim, f"c{at}")
        await c.runs("late")


async def test_each_node_gets_the_device_that_is_for_it() -> None:
    async with cluster(nodes=3, devices=1) as c:
        own = [{"name": f"for-node-{at}", "nodeName": f"node-{at}"} for at in range(3)]
        await publish(c, *own, perDeviceNodeSelection=True)
        await c.create(ResourceClaimTemplate, template("t", request(class_="x")))
        await c.create(Pod, *(pod(f"p{at}", templates=["t"]) for at in range(3)))
        for at in range(3):
            running = await c.runs(f"p{at}")
            [generated] = running.status.resourceClaimStatuses
            assert await devices_of(c, generated.resourceClaimName or "") == [f"for-{running.spec.nodeName}"]


async def test_pods_on_several_nodes_share_a_device_of_all_of_them() -> None:
    async with cluster(nodes=4, devices=1) as c:
        terms = [
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node-{n}" for n in range(3)]}
                ]
            }
        ]
        wide = {"name": "wide", "nodeSelector": {"nodeSelectorTerms": terms}}
        await publish(c, wide, perDeviceNodeSelection=True)
        await c.create(ResourceClaim, claim("wide", request(class_="x")))
        apart = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "wide"}}}
            ]
        }
        for at in range(3):
            await c.create(
                Pod, pod(f"p{at}", claims=["wide"], labels={"app": "wide"}, affinity={"podAntiAffinity": apart})
            )
        await c.runs("p0", "p1", "p2")
        assert {(await c.pod(f"p{at}")).spec.nodeName for at in range(3)} == {"node-0", "node-1", "node-2"}


async def test_devices_of_two_drivers_are_matched_by_what_requests_compute() -> None:
    async with cluster(nodes=1, devices=1, gates="DRADerivedAttributes=true") as c:
        first = [{"name": f"a{at}", "attributes": {"numa": {"string": f"numa-{at}"}}} for at in (0, 1)]
        second = [{"name": f"b{at}", "attributes": {"node": {"string": f"numa-{at}"}}} for at in (1, 2)]
        await publish(c, *first)
        await c.create(ResourceSlice, slice_of("y", "node-0", *second, driver=OTHER))
        await c.create(DeviceClass, device_class("y", f'device.driver == "{OTHER}"'))

        def computing(name: str, class_: str, expression: str) -> dict[str, Any]:
            return request(name, class_, derivedAttributes=[{"name": "s.io/numa", "expression": expression}])

        both = (
            computing("a", "x", f'device.attributes["{DRIVER}"]["numa"]'),
            computing("b", "y", f'device.attributes["{OTHER}"]["node"]'),
        )
        await c.create(ResourceClaim, claim("c", *both, constraints=[{"matchAttribute": "s.io/numa"}]))
        await c.create(Pod, pod("p", claims=["c"]))
        await c.runs("p")
        assert await devices_of(c, "c") == ["a1", "b1"]


async def test_partitions_of_one_device_must_go_together() -> None:
    async with cluster(nodes=1, devices=1, gates="DRADeviceCompatibilityGroups=true") as c:

        def of(name: str, group: str) -> dict[str, Any]:
            drawn = {"counterSet": "gpu", "counters": {"mem": {"value": "1"}}, "compatibilityGroups": [group]}
            return {"name": name, "consumesCounters": [drawn]}

        await publish(
            c, of("mig-0", "mig"), of("vgpu", "vgpu"), counters=[{"name": "gpu", "counters": {"mem": {"value": "2"}}}]
        )
        await c.create(ResourceClaimTemplate, template("t", request(class_="x")))
        await c.create(Pod, pod("a", templates=["t"]))
        await c.runs("a")
        await c.create(Pod, pod("b", templates=["t"]))
        await c.waits("b", FULL)
        again = slice_of("x", "node-0", of("mig-0", "mig"), of("mig-1", "mig"), driver=DRIVER, count=2)
        current = await c.client.get(ResourceSlice, "x")
        again["metadata"]["resourceVersion"] = current.metadata.resourceVersion
        await c.client.update(ResourceSlice, again)
        await c.runs("b")


async def test_extended_resources_of_devices_that_take_from_their_node() -> None:
    async with cluster(nodes=1, devices=1, gates="DRANodeAllocatableResources=true") as c:
        mapped = {"name": "d", "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "1"}}}}
        await publish(c, mapped)
        asking = pod("p")
        asking["spec"]["containers"][0]["resources"] = {"limits": {f"{IMPLICIT_PREFIX}x": "1"}}
        await c.create(Pod, asking)
        running = await c.runs("p")
        special = running.status.extendedResourceClaimStatus
        assert special is not None
        [told] = running.status.nodeAllocatableResourceClaimStatuses
        assert told.resourceClaimName == special.resourceClaimName
        assert [(one.name, one.quantity) for one in told.mapping] == [("cpu", "1")]


async def test_a_claim_that_only_needs_something_beside_it_may_be_shared() -> None:
    async with cluster(nodes=1, devices=1, gates="DRANodeAllocatableResources=true") as c:
        heavy = {"name": "d", "nodeAllocatableResources": {"memory": {"overhead": {"perPod": "100"}}}}
        await publish(c, heavy)
        await c.create(ResourceClaim, claim("shared", request(class_="x")))
        await c.create(Pod, pod("a", claims=["shared"]), pod("b", claims=["shared"]))
        await c.runs("a", "b")
        for name in ("a", "b"):
            assert len((await c.pod(name)).status.nodeAllocatableResourceClaimStatuses) == 1
