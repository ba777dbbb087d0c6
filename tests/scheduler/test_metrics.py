"""The figures that dashboards read."""

from __future__ import annotations

from prometheus_client import REGISTRY

from dray.api.errors import InternalError
from dray.api.types.core import Pod
from dray.core.queue import SchedulingQueue
from dray.scheduler.metrics import SchedulerFigures, pod_bound
from tests.e2e.cluster import NODES, SCHEDULER, cluster
from tests.e2e.interference import Write
from tests.e2e.objects import pod as tree_of
from tests.scheduler.objects import pod
from tests.waiting import eventually


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def test_pods_are_counted_by_place_and_by_who_refused_them_whenever_somebody_asks() -> None:
    queue = SchedulingQueue(lambda: 100.0)
    SchedulerFigures(queue)
    queue.add(pod("a", schedulerName="mine"))
    queue.add(pod("b", schedulerName="mine"), gated=True)
    queue.add(pod("c", schedulerName="mine", schedulingGates=[{"name": "later"}]), gated=True)
    assert value("scheduler_pending_pods", queue="active") == 1
    waiting = queue.pop()
    assert waiting is not None
    queue.refuse(waiting, ["DynamicResources"])
    assert value("scheduler_pending_pods", queue="active") == 0
    assert value("scheduler_pending_pods", queue="unschedulable") == 1
    assert value("scheduler_pending_pods", queue="gated") == 2
    assert value("scheduler_unschedulable_pods", plugin="DynamicResources", profile="mine") == 2
    assert value("scheduler_unschedulable_pods", plugin="SchedulingGates", profile="mine") == 1
    queue.remove(waiting.key)
    assert value("scheduler_unschedulable_pods", plugin="DynamicResources", profile="mine") == 1
    queue.remove("uid-b")
    assert value("scheduler_unschedulable_pods", plugin="DynamicResources", profile="mine") == 0


def test_attempts_steps_and_alternatives_are_counted() -> None:
    figures = SchedulerFigures(SchedulingQueue(lambda: 0.0))
    figures.attempted("scheduled", "counted", 0.001)
    figures.passed("Filter", "counted", 0.001)

    def chosen(most: str) -> float:
        return value("scheduler_dynamic_resources_alternative_index_bucket", le=most) or 0

    before = chosen("0.0"), chosen("2.0"), chosen("3.0"), chosen("7.0")
    figures.chose([(3, None), (0,)])
    after = chosen("0.0"), chosen("2.0"), chosen("3.0"), chosen("7.0")
    assert [a - b for a, b in zip(after, before, strict=True)] == [1, 1, 2, 2]
    assert value("scheduler_schedule_attempts_total", result="scheduled", profile="counted") == 1
    point = {"extension_point": "Filter", "status": "Success", "profile": "counted"}
    assert value("scheduler_framework_extension_point_duration_seconds_count", **point) == 1


def test_what_it_took_to_place_a_pod_counts_from_its_first_attempt() -> None:
    now = 100.0
    queue = SchedulingQueue(lambda: now)
    queue.add(pod("late", schedulerName="mine"), gated=True)
    now = 200.0
    queue.add(pod("late", schedulerName="mine"))
    now = 201.0
    waiting = queue.pop()
    assert waiting is not None
    queue.refuse(waiting, ["DynamicResources"])
    queue.activate_one(waiting.key)
    now = 203.0
    assert queue.pop() is waiting
    before = value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="2") or 0.0
    pod_bound(waiting, 205.0)
    assert value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="2") == before + 4.0
    waiting.attempts = 99
    pod_bound(waiting, 205.0)
    assert value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts="15+")


async def test_an_attempt_is_scheduled_once_the_pod_is_bound_and_an_error_if_that_fails() -> None:
    def counts() -> list[float]:
        labels = {"profile": "default-scheduler"}
        return [value("scheduler_schedule_attempts_total", result=r, **labels) or 0.0 for r in ("scheduled", "error")]

    failures = [InternalError("no")]

    async def fail(write: Write) -> None:
        if write.binds and failures:
            raise failures.pop()

    async with cluster(nodes=1, parts=(NODES,)) as c:
        c.hooks[SCHEDULER] = fail
        before = counts()
        await c.start(SCHEDULER)
        await c.create(Pod, tree_of("p"))
        await c.runs("p")
        await eventually(lambda: [now - then for now, then in zip(counts(), before, strict=True)] == [1.0, 1.0])
