"""Jobs with a Workload and a PodGroup, scheduled as their `scheduling` says, in a cluster within this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api.errors import Invalid, ServiceUnavailable
from dray.api.types.apps import ReplicaSet
from dray.api.types.batch import Job
from dray.api.types.core import Event, Pod
from dray.api.types.scheduling import PodGroup, PriorityClass, Workload
from dray.api.wire import Tree
from tests.e2e.cluster import CONTROLLERS, Cluster, cluster
from tests.e2e.interference import Write
from tests.scheduler.test_preemption import priority_class

GATES = "GenericWorkload=true,WorkloadWithJob=true,TopologyAwareWorkloadScheduling=true"


@asynccontextmanager
async def jobs(gates: str = GATES) -> AsyncIterator[Cluster]:
    """A node with 64 CPUs and no devices."""
    async with cluster(nodes=1, devices=0, gates=gates) as c:
        yield c


def job(name: str = "work", parallelism: int = 2, cpu: str = "1", meta: Tree | None = None, **spec: Any) -> Tree:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec.pop("pod", {})}}
    sizes = {"parallelism": parallelism, "completions": parallelism}
    return {
        "metadata": {"name": name, "namespace": "default", **(meta or {})},
        "spec": {**sizes, "template": template, **spec},
    }


def gang(least: int | None = None, **more: Any) -> Tree:
    return {"schedulingPolicy": {"gang": {} if least is None else {"minCount": least}}, **more}


async def pods_of(c: Cluster, name: str, count: int, *, running: bool = True) -> list[Pod]:
    async def look() -> list[Pod] | None:
        found = (await c.client.list(Pod, "default", labels=f"job-name={name}")).items
        wanted = [one for one in found if not running or one.status.phase == "Running"]
        return [*wanted] if len(wanted) == count else None

    found = await c.eventually(look)
    assert found is not None
    return found


async def group_of(c: Cluster, name: str = "work") -> PodGroup:
    """The only group of a job."""

    async def look() -> PodGroup | None:
        groups = (await c.client.list(PodGroup, "default")).items
        return next((g for g in groups if g.metadata.ownerReferences[0].name == name), None)

    found = await c.eventually(look)
    assert found is not None
    return found


async def test_a_job_gets_a_workload_and_a_group_with_the_basic_policy() -> None:
    async with jobs() as c:
        made = await c.create(Job, job())
        pods = await pods_of(c, "work", 2)
        (workload,) = (await c.client.list(Workload, "default")).items
        (group,) = (await c.client.list(PodGroup, "default")).items
        assert {pod.spec.schedulingGroup and pod.spec.schedulingGroup.podGroupName for pod in pods} == {
            group.metadata.name
        }
        ref = workload.spec.controllerRef
        assert ref is not None
        assert (ref.apiGroup, ref.kind, ref.name) == ("batch", "Job", "work")
        (template,) = workload.spec.podGroupTemplates or ()
        assert template.name == "work-pgt-0"
        assert template.schedulingPolicy.basic is not None
        assert group.spec.schedulingPolicy.basic is not None
        assert group.spec.workloadRef is not None
        assert (group.spec.workloadRef.workloadName, group.spec.workloadRef.templateName) == (
            workload.metadata.name,
            "work-pgt-0",
        )
        owners = [(one.kind, one.uid, bool(one.controller)) for one in group.metadata.ownerReferences]
        assert owners == [("Job", made.metadata.uid, True), ("Workload", workload.metadata.uid, False)]
        told = {e.reason for e in (await c.client.list(Event, "default")).items if e.involvedObject.name == "work"}
        assert told >= {"WorkloadCreated", "PodGroupCreated", "SuccessfulCreate"}
        await c.delete(Job, "work", propagation="Background")
        await c.gone(PodGroup, group.metadata.name)
        await c.gone(Workload, workload.metadata.name)


async def test_the_pods_of_a_gang_run_together_or_not_at_all() -> None:
    """The node has 64 CPUs. Without a number the gang is as large as the job; more parallelism makes it larger."""
    async with jobs() as c:
        await c.create(Job, job("large", 3, "30", scheduling=gang()))
        waiting = await pods_of(c, "large", 3, running=False)
        await c.waits(waiting[0].metadata.name, "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining")
        assert not any([(await c.pod(pod.metadata.name)).spec.nodeName for pod in waiting])
        await c.client.patch(Job, "large", {"spec": {"scheduling": gang(2)}}, "default")
        await pods_of(c, "large", 2)
        group = await group_of(c, "large")
        assert group.spec.schedulingPolicy.gang is not None
        assert group.spec.schedulingPolicy.gang.minCount == 2
        (workload,) = (await c.client.list(Workload, "default")).items
        (template,) = workload.spec.podGroupTemplates or ()
        assert template.schedulingPolicy.gang is not None
        assert template.schedulingPolicy.gang.minCount == 2


async def test_what_the_job_says_is_in_its_group() -> None:
    async with jobs() as c:
        await c.create(PriorityClass, priority_class("high", 1000))
        said = gang(
            1, disruptionMode={"all": {}}, schedulingConstraints={"topology": [{"key": "kubernetes.io/hostname"}]}
        )
        await c.create(Job, job(scheduling=said, pod={"priorityClassName": "high"}))
        await pods_of(c, "work", 2)
        spec = (await group_of(c)).spec
        assert spec.disruptionMode is not None
        assert spec.disruptionMode.all is not None
        assert spec.schedulingConstraints is not None
        assert [one.key for one in spec.schedulingConstraints.topology] == ["kubernetes.io/hostname"]
        assert (spec.priorityClassName, spec.priority) == ("high", 1000)


async def test_jobs_that_have_a_group_or_a_controller_of_their_own_get_none() -> None:
    async with jobs() as c:
        await c.create(
            PodGroup, {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"basic": {}}}}
        )
        await c.create(Job, job("grouped", pod={"schedulingGroup": {"podGroupName": "g"}}))
        await c.create(Job, job("owned", meta={"ownerReferences": [await owner(c)]}))
        await pods_of(c, "grouped", 2)
        for pod in await pods_of(c, "owned", 2):
            assert pod.spec.schedulingGroup is None
        assert (await c.client.list(Workload, "default")).items == ()
        assert [one.metadata.name for one in (await c.client.list(PodGroup, "default")).items] == ["g"]


async def owner(c: Cluster) -> Tree:
    """A reference to something that controls jobs."""
    labels = {"app": "x"}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    made = await c.create(ReplicaSet, {"metadata": {"name": "parent", "namespace": "default"}, "spec": spec})
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "parent",
        "uid": made.metadata.uid,
        "controller": True,
    }


async def test_a_controller_may_leave_the_group_to_its_job() -> None:
    async with jobs() as c:
        meta = {
            "ownerReferences": [await owner(c)],
            "annotations": {"scheduling.k8s.io/group-template-name": "workers"},
        }
        await c.create(Job, job(meta=meta))

        async def refused() -> bool:
            return any(e.reason == "FailedPodGroupCreate" for e in (await c.client.list(Event, "default")).items)

        await c.eventually(refused)
        assert (await c.client.list(Pod, "default")).items == ()
        templates = [{"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}]
        ref = {"apiGroup": "apps", "kind": "ReplicaSet", "name": "parent"}
        spec = {"controllerRef": ref, "podGroupTemplates": templates}
        await c.create(Workload, {"metadata": {"name": "parents", "namespace": "default"}, "spec": spec})
        await pods_of(c, "work", 2)
        group = await group_of(c)
        assert group.spec.workloadRef is not None
        assert group.spec.workloadRef.workloadName == "parents"
        assert [one.kind for one in group.metadata.ownerReferences] == ["Job"]


@pytest.mark.parametrize("fails", [Workload, PodGroup])
async def test_no_pod_comes_before_its_group(fails: type[Any]) -> None:
    failures = 0

    async def fail(write: Write) -> None:
        nonlocal failures
        if write.type is fails and write.verb == "create" and not failures:
            failures += 1
            raise ServiceUnavailable("not now")

    async with jobs() as c:
        await c.stop(CONTROLLERS)
        c.hooks[CONTROLLERS] = fail
        await c.start(CONTROLLERS)
        await c.create(Job, job(scheduling=gang()))
        for pod in await pods_of(c, "work", 2):
            assert pod.spec.schedulingGroup is not None
        assert failures == 1
        assert len((await c.client.list(Workload, "default")).items) == 1


async def test_a_job_that_began_without_the_gate_stays_without_a_group() -> None:
    async with jobs() as c:
        await c.restart(CONTROLLERS, "GenericWorkload=true")
        await c.create(Job, job())
        await pods_of(c, "work", 2)
        await c.restart(CONTROLLERS)
        await c.client.patch(Job, "work", {"spec": {"parallelism": 3, "backoffLimit": 2}}, "default")
        await c.create(Job, job("new"))
        await pods_of(c, "new", 2)
        assert [one.metadata.ownerReferences[0].name for one in (await c.client.list(PodGroup, "default")).items] == [
            "new"
        ]


async def test_a_suspended_job_keeps_its_group_for_when_it_is_resumed() -> None:
    async with jobs() as c:
        await c.create(Job, job(suspend=True, scheduling=gang()))
        group = await group_of(c)
        await c.client.patch(Job, "work", {"spec": {"suspend": False}}, "default")
        for pod in await pods_of(c, "work", 2):
            assert pod.spec.schedulingGroup is not None
            assert pod.spec.schedulingGroup.podGroupName == group.metadata.name


async def test_only_the_size_of_a_gang_may_change() -> None:
    async with jobs() as c:
        await c.create(Job, job(scheduling=gang(1)), job("plain"))
        for change in (
            gang(1, disruptionMode={"all": {}}),
            {"schedulingPolicy": {"gang": None, "basic": {}}},
            {"schedulingPolicy": {"gang": {"minCount": 3}}},  # more pods than the job has
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            None,
        ):
            with pytest.raises(Invalid, match=r"spec\.scheduling"):
                await c.client.patch(Job, "work", {"spec": {"scheduling": change}}, "default")
        with pytest.raises(Invalid):
            await c.client.patch(Job, "plain", {"spec": {"scheduling": gang(1)}}, "default")
        await c.client.patch(Job, "work", {"spec": {"scheduling": gang(2)}}, "default")


async def test_without_the_gate_the_field_is_dropped_and_nothing_is_made() -> None:
    async with jobs("GenericWorkload=true") as c:
        made = await c.create(Job, job(scheduling=gang()))
        assert made.spec.scheduling is None
        await pods_of(c, "work", 2)
        assert (await c.client.list(PodGroup, "default")).items == ()
