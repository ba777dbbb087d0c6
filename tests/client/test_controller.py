"""The controller loop: what is reconciled again, and when."""

import asyncio
from collections import deque

import pytest

from dray.api.errors import Conflict, InternalError
from dray.client import Controller, ManualClock
from dray.client.clock import settle
from tests.waiting import within


class Script:
    """A reconciler that does what the test lists for it."""

    def __init__(self, *outcomes: Exception | float | None) -> None:
        self.outcomes = deque(outcomes)
        self.calls: list[str] = []

    async def __call__(self, key: str) -> float | None:
        self.calls.append(key)
        outcome = self.outcomes.popleft() if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def _running(controller: Controller[str]) -> "asyncio.Task[None]":
    task = asyncio.create_task(controller.run())
    await settle()
    return task


async def _stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_errors_of_every_kind_are_retried_and_success_is_not(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    script = Script(Conflict("c"), InternalError("i"), ValueError("v"), None)
    controller = Controller("retrying", script, clock=clock)
    task = await _running(controller)
    controller.queue.add("k")
    await clock.advance(10)
    assert script.calls == ["k"] * 4
    assert controller.queue.failures("k") == 0
    logged = [record.levelname for record in caplog.records]
    assert logged == ["WARNING", "ERROR"]  # the conflict is ordinary
    await _stop(task)


async def test_an_error_is_a_warning_only_when_it_is_news(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    script = Script(*(InternalError(text) for text in ("a", "a", "b", "b", "a")), None, InternalError("a"))
    controller = Controller("repeating", script, clock=clock)
    task = await _running(controller)
    caplog.set_level("DEBUG", "dray.client.controller")
    controller.queue.add("k")
    await clock.advance(10)
    controller.queue.add("k")
    await clock.advance(10)
    told = [(record.levelname, record.getMessage()[-1]) for record in caplog.records]
    assert told == [
        ("WARNING", "a"),
        ("DEBUG", "a"),
        ("WARNING", "b"),
        ("DEBUG", "b"),
        ("WARNING", "a"),
        ("WARNING", "a"),  # it had gone well in between
    ]
    await _stop(task)


async def test_a_reconciler_may_ask_to_look_again_later() -> None:
    clock = ManualClock()
    script = Script(5.0)
    controller = Controller("later", script, clock=clock)
    task = await _running(controller)
    controller.queue.add("k")
    await clock.advance(4.9)
    assert len(script.calls) == 1
    await clock.advance(0.2)
    assert len(script.calls) == 2
    await _stop(task)


async def test_workers_handle_different_keys_at_once() -> None:
    gate, running = asyncio.Event(), set()

    async def reconcile(key: str) -> None:
        running.add(key)
        await gate.wait()

    controller = Controller("parallel", reconcile, workers=3)
    task = await _running(controller)
    for key in "abcd":
        controller.queue.add(key)
    await settle()
    assert running == {"a", "b", "c"}
    gate.set()
    await settle()
    assert running == {"a", "b", "c", "d"}
    await _stop(task)


async def test_a_closed_queue_ends_the_controller_after_its_work() -> None:
    script = Script()
    controller = Controller("closing", script)
    controller.queue.add("a")
    controller.queue.close()
    await within(controller.run())
    assert script.calls == ["a"]
