"""The scheduling queue: order, places, waking up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dray.core.queue import FLUSH_AFTER, HELPED_AT_ONCE, MAX_BACKOFF, QueuePlace, SchedulingQueue, Waiting
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
    queue.refuse(waiting, ["DynamicResources"])
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
        queue.refuse(waiting, ["odd" if number % 2 else "even"])
    queue.activate(queue.refused_by())
    assert [w.pod.metadata.name for w in iter(queue.pop, None)] == ["a", "b", "c", "d"]
    assert queue.refused_by() == []


def _refused_pods(queue: SchedulingQueue, count: int) -> list[str]:
    names = [f"p{number}" for number in range(count)]
    for name in names:
        queue.add(pod(name))
    for waiting in [*iter(queue.pop, None)]:
        queue.refuse(waiting, ["NodeResourcesFit"])
    return names


def test_an_event_that_helps_thousands_moves_a_bounded_number_of_them_in_one_step() -> None:
    queue = SchedulingQueue(Time())
    names = _refused_pods(queue, 3 * HELPED_AT_ONCE)
    queue.activate_refused({"NodeAffinity"})
    assert queue.counts()["active"] == 0
    queue.activate_refused({"NodeResourcesFit"})
    assert queue.counts()["active"] == HELPED_AT_ONCE
    queue.activate_refused()  # once more, for another reason
    moved, tried = queue.counts()["active"], []
    while (waiting := queue.pop()) is not None:
        tried.append(waiting.pod.metadata.name)
        active = queue.counts()["active"]
        assert active + 1 - moved <= HELPED_AT_ONCE
        moved = active
    assert tried == names


def test_a_pod_that_is_refused_again_waits_for_the_next_event() -> None:
    queue = SchedulingQueue(Time())
    names = _refused_pods(queue, 2 * HELPED_AT_ONCE)
    queue.activate_refused({"NodeResourcesFit"})
    tried = []
    while (waiting := queue.pop()) is not None:
        tried.append(waiting.pod.metadata.name)
        queue.refuse(waiting, ["NodeResourcesFit"])
    assert sorted(tried) == sorted(names)  # each once


def test_a_copy_tries_pods_in_the_order_in_which_they_were_refused() -> None:
    queue = SchedulingQueue(Time())
    for name in "abcd":
        queue.add(pod(name))
    for waiting in [*iter(queue.pop, None)][::-1]:
        queue.refuse(waiting, ["DynamicResources"])
    twin = queue.copy()
    for tried in (queue, twin):
        tried.activate(tried.refused_by())
        assert [w.pod.metadata.name for w in iter(tried.pop, None)] == ["d", "c", "b", "a"]


class Helped:
    """Pods that were refused, of which some event helps as many as there is `left` of it."""

    def __init__(self, left: int, **priorities: int) -> None:
        self.left = left
        self.queue = SchedulingQueue(Time())
        for name, priority in priorities.items():
            self.queue.add(pod(name, priority=priority))
        for waiting in sorted(iter(self.queue.pop, None), key=lambda w: w.pod.metadata.name):
            self.queue.refuse(waiting, ["DynamicResources"], "alike")
        for pods in self.queue.alike():
            self.queue.activate_in_turn(pods, lambda: self.left > 0)

    def tried(self, *, takes: int = 1) -> list[str]:
        """Try what can be tried; each takes some of what is left."""
        names = []
        for waiting in iter(self.queue.pop, None):
            names.append(waiting.pod.metadata.name)
            self.left -= takes
            if not takes:
                self.queue.refuse(waiting, ["DynamicResources"], "alike")
            self.queue.judged(waiting)
        return names


def test_pods_in_a_line_are_tried_by_priority_and_age_while_something_is_left() -> None:
    helped = Helped(3, a=0, b=5, c=0, d=5, e=0)
    assert helped.tried() == ["b", "d", "a"]
    assert helped.queue.counts()["unschedulable"] == 2


def test_nobody_of_a_line_is_tried_when_nothing_is_left() -> None:
    helped = Helped(0, a=0, b=0)
    assert helped.tried() == []
    assert helped.queue.counts()["unschedulable"] == 2


def test_those_who_can_do_nothing_with_it_let_the_next_in_line_try() -> None:
    helped = Helped(1, a=0, b=0, c=0)
    assert helped.tried(takes=0) == ["a", "b", "c"]
    assert helped.queue.counts()["unschedulable"] == 3


def test_who_is_refused_again_does_not_keep_the_others_of_the_line_waiting() -> None:
    helped = Helped(1, a=0, b=5, c=0, d=5)
    assert helped.tried(takes=0) == ["b", "d", "a", "c"]


def test_a_line_knows_pods_by_what_they_are_when_they_go() -> None:
    helped = Helped(1, a=0, b=0, c=0)
    helped.queue.add(pod("c", priority=7))  # its place among the others is where it was refused
    helped.queue.remove("uid-c")
    assert helped.tried(takes=0) == ["a", "b"]


@pytest.mark.parametrize("event", ["gone", "gated"])
def test_the_next_in_line_goes_when_the_one_before_will_not_be_tried(event: str) -> None:
    helped = Helped(1, a=0, b=0, c=0)
    if event == "gone":
        helped.queue.remove("uid-a")
    else:
        helped.queue.add(pod("a"), gated=True)
    assert helped.tried() == ["b"]


def test_who_was_helped_otherwise_loses_its_place_in_the_line() -> None:
    helped = Helped(9, a=0, b=0, c=0)
    helped.queue.activate_one("uid-b")
    assert helped.tried() == ["a", "b", "c"]
    assert helped.left == 6


def test_backoff_doubles_up_to_a_limit() -> None:
    time = Time()
    queue = SchedulingQueue(time)
    queue.add(pod("p"))
    pauses = []
    for _ in range(6):
        waiting = queue.pop()
        assert waiting is not None
        queue.retry(waiting)
        due = queue.next_wake()
        assert due is not None
        pauses.append(due - time.now)
        assert queue.pop() is None
        time.now = due
    assert pauses == [1.0, 2.0, 4.0, 8.0, MAX_BACKOFF, MAX_BACKOFF]


def test_a_longer_pause_than_the_backoff_is_kept() -> None:
    time = Time()
    queue = SchedulingQueue(time)
    queue.add(pod("p"))
    for pause in (30.0, 0.0):
        waiting = queue.pop()
        assert waiting is not None
        queue.retry(waiting, pause)
        due = queue.next_wake()
        assert due == time.now + max(pause, waiting.backoff())
        time.now = due


def test_a_pod_that_was_refused_for_lack_of_time_is_unschedulable_but_no_event_hurries_it() -> None:
    queue = SchedulingQueue(Time())
    queue.add(pod("late"))
    waiting = queue.pop()
    assert waiting is not None
    queue.retry(waiting, 30.0, ["DynamicResources"])
    assert queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 0}
    assert [w.pod.metadata.name for w in queue.refused()] == ["late"]
    assert queue.refused_by({"DynamicResources"}) == []


def test_an_attempt_that_is_not_over_goes_on_after_the_others() -> None:
    time = Time()
    queue = SchedulingQueue(time)
    queue.add(pod("slow"))
    time.now += 1
    queue.add(pod("quick"))
    slow = queue.pop()
    assert slow is not None
    time.now += 1
    queue.postpone(slow)
    assert [w.pod.metadata.name for w in iter(queue.pop, None)] == ["quick", "slow"]
    assert slow.attempts == 1


def test_an_unschedulable_pod_is_tried_again_after_a_while_without_any_event() -> None:
    time = Time()
    queue = SchedulingQueue(time)
    queue.add(pod("p"))
    waiting = queue.pop()
    assert waiting is not None
    queue.refuse(waiting, ["X"])
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
        queue.refuse(waiting, ["odd" if number % 2 else "even"])
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
    queue.refuse(outdated, ["X"])
    assert queue.counts()["unschedulable"] == 0
    assert queue.pop() is queue.get("uid-p")


@pytest.mark.parametrize("put_back", [SchedulingQueue.retry, SchedulingQueue.postpone])
def test_a_pod_that_was_deleted_while_it_was_tried_does_not_come_back(
    put_back: Callable[[SchedulingQueue, Waiting], None],
) -> None:
    time = Time()
    queue = SchedulingQueue(time)
    queue.add(pod("p"))
    tried = queue.pop()
    assert tried is not None
    queue.remove("uid-p")
    put_back(queue, tried)
    time.now += MAX_BACKOFF + 1
    assert queue.pop() is None


def test_a_gated_pod_is_not_tried_before_its_gate_is_gone() -> None:
    queue = SchedulingQueue(Time())
    queue.add(pod("p"), gated=True)
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
    queue.refuse(waiting, ["X"])
    queue.retry(waiting)
    queue.activate(queue.refused_by())
    assert queue.pop() is None
    assert len(queue) == 0


def test_an_update_while_it_is_tried_keeps_its_place() -> None:
    queue = SchedulingQueue(Time())
    queue.add(pod("p"))
    waiting = queue.pop()
    assert waiting is not None
    queue.add(pod("p", labels={"new": "yes"}))
    assert waiting.place is QueuePlace.TRYING
    assert queue.pop() is None
    assert waiting.pod.metadata.labels == {"new": "yes"}
