"""The figures that dashboards read."""

from __future__ import annotations

from prometheus_client import REGISTRY

from dray.scheduler.metrics import Figures
from dray.scheduler.queue import SchedulingQueue
from tests.scheduler.objects import pod


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


def test_pods_are_counted_by_place_and_by_who_refused_them() -> None:
    time = 100.0
    queue = SchedulingQueue(lambda: time)
    figures = Figures(lambda: time)
    queue.add(pod("a", schedulerName="mine"))
    queue.add(pod("b", schedulerName="mine"), gate="claim missing")
    waiting = queue.pop()
    assert waiting is not None
    queue.refuse(waiting, ["DynamicResources"], "no devices")
    figures.show(queue)
    assert value("scheduler_pending_pods", queue="unschedulable") == 1
    assert value("scheduler_pending_pods", queue="gated") == 1
    assert value("scheduler_unschedulable_pods", plugin="DynamicResources", profile="mine") == 1
    queue.remove(waiting.key)
    time += 2
    figures.show(queue)
    assert value("scheduler_unschedulable_pods", plugin="DynamicResources", profile="mine") == 0


def test_attempts_steps_and_alternatives_are_counted() -> None:
    figures = Figures(lambda: 0.0)
    figures.attempted("scheduled", "counted", 0.001)
    figures.passed("Filter", "counted", 0.001)
    before = value("scheduler_dynamic_resources_alternatives_total", index="3") or 0
    figures.chose([(3, None), (0,)])
    assert value("scheduler_schedule_attempts_total", result="scheduled", profile="counted") == 1
    point = {"extension_point": "Filter", "status": "Success", "profile": "counted"}
    assert value("scheduler_framework_extension_point_duration_seconds_count", **point) == 1
    assert value("scheduler_dynamic_resources_alternatives_total", index="3") == before + 1
