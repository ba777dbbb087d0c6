"""The scheduling queue: order, places, waking up."""

from __future__ import annotations

from dray.scheduler.queue import FLUSH_AFTER, MAX_BACKOFF, Place, SchedulingQueue
from tests.scheduler.objects import pod


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_higher_priority_goes_first_then_the_one_that_waits_longer() -> None:
    time = Time()
    queue = SchedulingQueue(time)
    queue.add(pod("late"))
    time.now += 1
    queue.add(pod("later"))
    queue.add(pod("urgent", priority=10))
    names = [w.pod.metadata.name for w in iter(queue.pop, None)]
    assert names == ["urgent", "late", "later"]


def test_a_refused_pod_waits_for_an_event_that_may_help_and_is_then_tried_at_once() -> None:
    queue = SchedulingQueue(Time())
    queue.add(pod("p"))
    waiting = queue.pop()
    assert waiting is not None
    queue.refuse(waiting, ["DynamicResources"], "no devices")
    assert queue.pop() is None
    assert queue.refused_by({"NodeAffinity"}) == []
    assert queue.refused_by({"NodeAffinity", "DynamicResources"}) == queue.refused_by() == [waiting]
    queue.activate([])
    assert queue.pop() is None
    queue.activate([waiting])
    assert queue.pop() is waiting


def test_pods_that_an_event_helps_are_tried_in_the_order_in_which_they_were_refused() -> None:
    queue = SchedulingQueue(Time())
    for name in "abcd":
        queue.add(pod(name))
    for number, waiting in enumerate(iter(queue.pop, None)):
        queue.refuse(waiting, ["odd" if number % 2 else "even"], "no")
    queue.activate(queue.refused_by())
    assert [w.pod.metadata.name for w in iter(queue.pop, None)] == ["a", "b", "c", "d"]
    assert queue.refused_by() == []


def test_backoff_doubles_up_to_a_limit() -> None:
    time = Time()
    queue = SchedulingQueue(time)
    queue.add(pod("p"))
    pauses = []
    for _ in range(6):
        waiting = queue.pop()
        assert waiting is not None
        queue.retry(waiting, "conflict")
        due = queue.next_wake()
        assert due is not None
        pauses.append(due - time.now)
        assert queue.pop() is None
        time.now = due
    assert pauses == [1.0, 2.0, 4.0, 8.0, MAX_BACKOFF, MAX_BACKOFF]


def test_an_unschedulable_pod_is_tried_again_after_a_while_without_any_event() -> None:
    time = Time()
    queue = SchedulingQueue(time)
    queue.add(pod("p"))
    waiting = queue.pop()
    assert waiting is not None
    queue.refuse(waiting, ["X"], "no")
    time.now += FLUSH_AFTER - 1
    assert queue.pop() is None
    time.now += 1
    assert queue.pop() is waiting


def test_pods_that_nobody_helped_are_tried_in_the_order_in_which_they_were_refused_whoever_refused_them() -> None:
    time = Time()
    queue = SchedulingQueue(time)
    for name in "abcd":
        queue.add(pod(name))
    for number, waiting in enumerate(iter(queue.pop, None)):
        queue.refuse(waiting, ["odd" if number % 2 else "even"], "no")
        time.now += 1
    queue.remove("uid-a")
    assert [w.pod.metadata.name for w in queue.refused()] == ["c", "b", "d"]
    assert queue.counts()["unschedulable"] == 3
    assert queue.next_wake() == 101.0 + FLUSH_AFTER
    time.now = 102.0 + FLUSH_AFTER
    assert [w.pod.metadata.name for w in iter(queue.pop, None)] == ["b", "c"]
    assert queue.counts()["unschedulable"] == 1
    assert queue.next_wake() == 103.0 + FLUSH_AFTER


def test_a_verdict_on_a_pod_that_was_taken_in_anew_meanwhile_is_too_late() -> None:
    queue = SchedulingQueue(Time())
    queue.add(pod("p"))
    outdated = queue.pop()
    assert outdated is not None
    queue.remove("uid-p")
    queue.add(pod("p"))
    queue.refuse(outdated, ["X"], "no")
    assert queue.counts()["unschedulable"] == 0
    assert queue.pop() is queue.get("uid-p")


def test_a_gated_pod_is_not_tried_before_its_gate_is_gone() -> None:
    queue = SchedulingQueue(Time())
    queue.add(pod("p"), gate="claim missing")
    assert queue.pop() is None
    assert queue.counts()["gated"] == 1
    queue.add(pod("p"))
    popped = queue.pop()
    assert popped is not None
    assert popped.pod.metadata.name == "p"


def test_a_removed_pod_never_comes_back() -> None:
    queue = SchedulingQueue(Time())
    queue.add(pod("p"))
    waiting = queue.pop()
    assert waiting is not None
    queue.remove("uid-p")
    queue.refuse(waiting, ["X"], "no")
    queue.retry(waiting, "no")
    queue.activate(queue.refused_by())
    assert queue.pop() is None
    assert len(queue) == 0


def test_an_update_while_it_is_tried_keeps_its_place() -> None:
    queue = SchedulingQueue(Time())
    queue.add(pod("p"))
    waiting = queue.pop()
    assert waiting is not None
    queue.add(pod("p", labels={"new": "yes"}))
    assert waiting.place is Place.TRYING
    assert queue.pop() is None
    assert waiting.pod.metadata.labels == {"new": "yes"}
