"""Further uses of claims by pods, as Kubernetes' own tests of the control plane make them."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.reasons.nodes import NodeCode
from dray.api.types.apps import DaemonSet, Deployment
from dray.api.types.batch import Job
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate
from dray.node.played import SECONDS
from dray.sim.hardware import DRIVER, node_tree
from tests.e2e.audit import devices_of
from tests.e2e.cluster import Cluster, cluster
from tests.e2e.objects import claim, device_class, on_node, pod, request, template
from tests.saying import refused

ADMIN = {"metadata": {"name": "admin", "labels": {"resource.kubernetes.io/admin-access": "true"}}}


def workload(name: str, tree: dict[str, Any], **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    made = {"metadata": {"labels": labels}, "spec": tree["spec"]}
    namespace = tree["metadata"]["namespace"]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": made, **spec},
    }


async def test_a_class_that_is_changed_so_that_devices_match_lets_the_pod_go_on() -> None:
    async with cluster() as c:
        await c.create(DeviceClass, device_class("mine", "false"))
        await c.create(ResourceClaim, claim("gpu", request(class_="mine")))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await c.waits("p", refused(NodeCode.CANNOT_ALLOCATE, 3))
        selectors = [{"cel": {"expression": "true"}}]
        await c.client.patch(DeviceClass, "mine", {"spec": {"selectors": selectors}})
        await c.runs("p")


async def test_a_pod_runs_without_a_claim_when_its_status_says_that_none_is_needed() -> None:
    async with cluster() as c:
        await c.create(Pod, pod("p", templates=["missing"]))
        await c.waits("p")
        status = {"resourceClaimStatuses": [{"name": "t0"}]}
        await c.client.patch(Pod, "p", {"status": status}, "default", subresource="status")
        await c.runs("p")
        assert not await c.claims()


async def test_long_names_of_pods_and_entries_still_make_a_claim() -> None:
    async with cluster() as c:
        await c.create(ResourceClaimTemplate, template("t"))
        name, entry = "p" * 63, "c" * 63
        tree = pod(name, templates=["t"])
        tree["spec"]["resourceClaims"][0]["name"] = entry
        tree["spec"]["containers"][0]["resources"]["claims"][0]["name"] = entry
        await c.create(Pod, tree, {**pod("q" * 253, templates=["t"])})
        await c.runs(name, "q" * 253)
        assert len(await c.claims()) == 2


async def test_init_containers_use_claims_too() -> None:
    async with cluster() as c:
        await c.create(ResourceClaimTemplate, template("t"))
        tree = pod("p", templates=["t"])
        init = {"name": "init", "image": "app", "resources": {"claims": [{"name": "t0"}]}}
        tree["spec"]["initContainers"] = [init]
        await c.create(Pod, tree)
        assert (await c.runs("p")).status.initContainerStatuses[0].state.terminated is not None


async def test_a_claim_is_shared_one_after_the_other_and_at_the_same_time() -> None:
    async with cluster(nodes=2, devices=1) as c:
        await c.create(ResourceClaim, claim("gpu"))
        for number in range(3):
            await c.create(Pod, pod(f"p{number}", claims=["gpu"], annotations={SECONDS: "0"}, restartPolicy="Never"))
            await c.runs(f"p{number}", phase="Succeeded")
        await c.create(Pod, *(pod(f"q{number}", claims=["gpu"]) for number in range(10)))
        await c.runs(*(f"q{number}" for number in range(10)))
        assert len({(await c.pod(f"q{number}")).spec.nodeName for number in range(10)}) == 1


async def test_a_driver_reports_about_allocated_devices_until_they_are_given_back() -> None:
    async with cluster() as c:
        await c.create(ResourceClaim, claim("gpu"))
        await c.create(Pod, pod("p", claims=["gpu"]))
        await c.runs("p")
        [(driver, pool, name)] = devices_of(await c.claim("gpu"))
        network = {"interfaceName": "eth1", "ips": ["192.0.2.1/24"]}
        data = {"driver": driver, "pool": pool, "device": name, "data": {"free": "form"}, "networkData": network}
        await c.client.patch(ResourceClaim, "gpu", {"status": {"devices": [data]}}, "default", subresource="status")
        assert (await c.claim("gpu")).status.devices[0].networkData is not None
        await c.delete(Pod, "p")

        async def cleared() -> bool:
            status = (await c.claim("gpu")).status
            return status.allocation is None and not status.devices

        await c.eventually(cleared)


# Workloads


async def test_every_node_gets_a_daemon_with_admin_access_to_devices_in_use() -> None:
    async with cluster(nodes=2, devices=2) as c:
        await c.create(Namespace, ADMIN)
        await c.create(ResourceClaimTemplate, template("user", request(count=2)))
        await c.create(Pod, *(pod(f"p{number}", templates=["user"]) for number in range(2)))
        await c.runs("p0", "p1")
        everything = request(allocationMode="All", adminAccess=True)
        await c.create(ResourceClaimTemplate, template("t", everything, namespace="admin"))
        await c.create(DaemonSet, workload("monitor", pod("x", templates=["t"], namespace="admin")))

        async def ready(number: int) -> bool:
            return (await c.client.get(DaemonSet, "monitor", "admin")).status.numberReady == number

        await c.eventually(lambda: ready(2))
        results = [
            r for one in await c.claims("admin") if one.status.allocation for r in one.status.allocation.devices.results
        ]
        assert len(results) == 4
        assert all(result.adminAccess for result in results)
        await c.client.create(Node, node_tree(9, "2024-01-01T00:00:00Z"))
        await c.client.delete(Node, "node-9")
        await c.eventually(lambda: ready(2))


async def test_a_deployment_with_a_template_gives_each_replica_its_own_device() -> None:
    async with cluster(nodes=2, devices=3) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(Deployment, workload("web", pod("x", templates=["t"]), replicas=3))

        async def available(number: int) -> bool:
            return (await c.client.get(Deployment, "web", "default")).status.availableReplicas == number

        await c.eventually(lambda: available(3))
        assert len({found for one in await c.claims() for found in devices_of(one)}) == 3
        await c.client.patch(Deployment, "web", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}}, "default")

        async def rolled() -> bool:
            pods = (await c.client.list(Pod, "default")).items
            return len(pods) == 3 and all(one.metadata.labels.get("v") == "2" for one in pods) and await available(3)

        await c.eventually(rolled)
        await c.delete(Deployment, "web", propagation="Foreground")
        await c.gone(Deployment, "web")
        await nothing_left(c)


async def test_a_job_with_more_completions_than_devices_gets_through() -> None:
    async with cluster(nodes=1, devices=2) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        tree = pod("x", templates=["t"], restartPolicy="Never")
        job = workload("batch", tree, completions=6, parallelism=4)
        del job["spec"]["selector"]
        job["spec"]["template"]["metadata"]["annotations"] = {SECONDS: "0.05"}
        await c.create(Job, job)

        async def complete() -> bool:
            conditions = (await c.client.get(Job, "batch", "default")).status.conditions
            return any(one.type == "Complete" and one.status == "True" for one in conditions)

        await c.eventually(complete)
        await c.delete(Job, "batch", propagation="Background")
        await nothing_left(c)


async def nothing_left(c: Cluster) -> None:
    async def empty() -> bool:
        return not await c.claims() and not (await c.client.list(Pod, "default")).items

    await c.eventually(empty)


# Taints


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
async def test_a_tainted_device_goes_to_nobody_and_with_noexecute_its_pod_leaves(effect: str) -> None:
    async with cluster(nodes=1, devices=2) as c:
        await c.create(ResourceClaimTemplate, template("t"))
        await c.create(Pod, pod("p", templates=["t"]))
        await c.runs("p")
        [(_, _, used)] = [found for one in await c.claims() for found in devices_of(one)]
        selector = {"driver": DRIVER, "pool": "node-0", "device": used}
        rule = {"deviceSelector": selector, "taint": {"key": "broken", "value": "yes", "effect": effect}}
        await c.create(DeviceTaintRule, {"metadata": {"name": "broken"}, "spec": rule})
        if effect == "NoExecute":
            await c.gone(Pod, "p")
        else:
            await c.quiet()
            assert (await c.pod("p")).status.phase == "Running"
            await c.delete(Pod, "p")
            await c.gone(Pod, "p")
        await c.create(Pod, pod("q", templates=["t"]), pod("r", templates=["t"]))

        async def one_runs() -> list[str]:
            pods = [await c.pod("q"), await c.pod("r")]
            return [one.metadata.name for one in pods if one.status.phase == "Running"]

        [first] = await c.eventually(one_runs)
        waiting = "r" if first == "q" else "q"
        await c.waits(waiting, refused(NodeCode.CANNOT_ALLOCATE))
        tolerant = template("brave", request(tolerations=[{"key": "broken", "operator": "Exists"}]))
        await c.create(ResourceClaimTemplate, tolerant)
        await c.create(Pod, pod("brave", templates=["brave"], **on_node("node-0")))
        await c.runs("brave")
        await c.delete(Pod, "brave")
        await c.client.delete(DeviceTaintRule, "broken")
        await c.runs(waiting)
