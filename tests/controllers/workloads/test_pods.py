"""Which pods count, and which go first."""

from __future__ import annotations

from dray.api.times import timestamp
from dray.controllers.workloads.pods import (
    DELETION_COST,
    deletion_order,
    is_active,
    is_available,
    is_terminating,
    next_available,
)
from tests.controllers.workloads.objects import pod

NOW = 1_000_000.0


def order(*pods: object) -> list[str]:
    return [one.metadata.name for one in deletion_order(pods, pods, NOW)]  # type: ignore[arg-type]


def running(name: str, *, node: str = "n", ready: float | None = NOW - 64, **meta: object) -> object:
    created = {"creationTimestamp": timestamp(NOW - 1024)}
    return pod(name, node=node, phase="Running", ready=ready, **(created | meta))


def test_finished_and_deleted_pods_do_not_count() -> None:
    assert is_active(pod(phase="Running"))
    assert not is_active(pod(phase="Failed"))
    deleted = pod(phase="Running", deletionTimestamp=timestamp(NOW))
    assert not is_active(deleted)
    assert is_terminating(deleted)
    assert not is_terminating(pod(phase="Succeeded", deletionTimestamp=timestamp(NOW)))


def test_a_pod_is_available_once_it_was_ready_for_long_enough() -> None:
    one = pod(phase="Running", ready=NOW - 10)
    assert is_available(one, 10, NOW)
    assert not is_available(one, 11, NOW)
    assert next_available([one, pod(), pod(ready=NOW)], 15, NOW) == 5
    assert next_available([pod()], 15, NOW) is None


def test_pods_that_have_come_less_far_go_first() -> None:
    waiting = pod("waiting")
    pending = pod("pending", node="n")
    unready = running("unready", ready=None)
    assert order(running("ready"), unready, pending, waiting) == ["waiting", "pending", "unready", "ready"]


def test_among_ready_pods_cost_crowding_youth_and_restarts_decide() -> None:
    assert order(running("dear", annotations={DELETION_COST: "5"}), running("cheap")) == ["cheap", "dear"]
    assert order(
        running("odd", annotations={DELETION_COST: "many"}), running("b", annotations={DELETION_COST: "-1"})
    ) == [
        "b",
        "odd",
    ]
    crowded = order(running("a", node="x"), running("b", node="y"), running("c", node="y"))
    assert crowded[-1] == "a"
    assert order(running("old", ready=NOW - 5000), running("young", ready=NOW - 3)) == ["young", "old"]
    assert order(running("calm"), running("shaky", restarts=3)) == ["shaky", "calm"]
