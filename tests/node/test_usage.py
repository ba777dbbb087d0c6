"""What containers use, as the kernel tells it: real processes, and one suite for every runtime that executes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.node.runtime import ContainerKey, Runtime, Task
from dray.node.usage import of_descendants, of_machine
from tests.node.test_runtimes import EXECUTING, end, opened, shell, written
from tests.waiting import eventually

KEY = ContainerKey("pod-1", "main", 0)


@pytest.fixture(params=EXECUTING)
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    runtime = opened(request.param, tmp_path)
    yield runtime
    await end(runtime)


async def test_a_container_that_computes_uses_time_and_one_that_sleeps_next_to_none(runtime: Runtime) -> None:
    busy, idle = KEY, ContainerKey("pod-1", "idle", 0)
    await runtime.start(shell("while :; do :; done"))
    await runtime.start(Task(idle, ("sleep", "600")))

    def apart() -> bool:
        used = runtime.usage([busy, idle])
        return used[busy].cpu > used[idle].cpu + 0.5 and used[busy].memory > 0 and used[idle].memory > 0

    await eventually(apart)


async def test_time_of_processes_that_have_ended_still_counts(runtime: Runtime) -> None:
    await runtime.start(shell("n=0; (while [ $n -lt 1500000 ]; do n=$((n+1)); done); echo ended; sleep 600"))
    await eventually(lambda: runtime.log(KEY) and written(runtime, KEY) == ["ended"])
    assert runtime.usage([KEY])[KEY].cpu > 0.2


async def test_nothing_is_known_of_containers_that_are_not_there(runtime: Runtime) -> None:
    assert runtime.usage([KEY]) == {}


def test_a_process_counts_for_its_nearest_guardian() -> None:
    used = of_descendants({os.getppid(): "above", os.getpid(): "here"})
    assert used["above"].memory >= 0
    assert "here" in used


def test_the_machine_has_been_computing() -> None:
    machine = of_machine()
    assert machine.cpu > 0
    assert machine.memory > 0
