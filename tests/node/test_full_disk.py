"""A disk that a pod has filled: other containers run on, ends are told, and the pod can be removed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.client import Client
from dray.node.logs import LogOptions, read_log
from dray.node.runtime import ContainerKey, Runtime
from tests.node.cluster import Cluster
from tests.node.conftest import running_agent
from tests.node.driver import Driver
from tests.node.test_runtimes import EXECUTING, end, finished, opened, running_with, shell, written
from tests.waiting import eventually, within

KEY = ContainerKey("pod-1", "main", 0)


@pytest.fixture
def disk(root: Path) -> Iterator[Path]:
    """A file system of its own with two mebibytes."""
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "dray", str(root)], check=False)
    if mount.returncode:
        pytest.skip("file systems cannot be mounted here")
    yield root
    subprocess.run(["umount", "--lazy", str(root)], check=True)


def fill(disk: Path) -> Path:
    """Take everything that is left. Returns the file that has it."""
    file = os.open(disk / "hog", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (65536, 1):
            while True:
                try:
                    os.write(file, b"x" * size)
                except OSError:
                    break
    finally:
        os.close(file)
    return disk / "hog"


@pytest.mark.parametrize("name", EXECUTING)
async def test_a_container_outlives_a_full_disk_and_its_end_is_told(name: str, disk: Path) -> None:
    runtime = opened(name, disk)
    # Each round writes more than one page, so that the log cannot go on in what it has already.
    await runtime.start(shell("trap 'exit 7' TERM; while :; do seq 2000; sleep 0.01; done"))
    await eventually(lambda: len(written(runtime, KEY)) > 3)
    hog = fill(disk)
    grown = await _stops_growing(runtime)
    [attempt] = runtime.attempts("pod-1")
    assert attempt.running
    hog.unlink()
    await eventually(lambda: _size(runtime) > grown)
    fill(disk)
    await within(runtime.stop(KEY, 30))
    assert (await finished(runtime, KEY)).exit_code == 7
    file = runtime.log(KEY)
    assert file is not None
    text = b"".join([piece async for piece in read_log(file, LogOptions(since=1.0), lambda: False)])
    assert {*text.split()} <= {str(number).encode() for number in range(1, 2001)}  # no line is cut off
    (disk / "hog").unlink()
    await end(runtime)


@pytest.mark.parametrize("name", EXECUTING)
async def test_the_first_words_of_a_container_may_come_when_the_disk_is_full(name: str, disk: Path) -> None:
    runtime = opened(name, disk)
    pause = f"0.01{time.time_ns()}"
    await runtime.start(shell(f"trap 'echo bye; exit 7' TERM; while :; do sleep {pause}; done"))
    await eventually(lambda: running_with(pause))  # so the trap is set
    fill(disk)
    await within(runtime.stop(KEY, 30))
    assert (await finished(runtime, KEY)).exit_code == 7
    assert written(runtime, KEY) == []
    (disk / "hog").unlink()
    await end(runtime)


async def _stops_growing(runtime: Runtime) -> int:
    """Wait until nothing is written any more. Returns the size of the log."""
    sizes = [-1, _size(runtime)]
    while sizes[-1] != sizes[-2]:
        await asyncio.sleep(0.2)
        sizes.append(_size(runtime))
    return sizes[-1]


def _size(runtime: Runtime) -> int:
    file = runtime.log(KEY)
    assert file is not None
    return file.stat().st_size


async def test_a_pod_with_a_claim_is_removed_from_a_full_disk(
    node_client: Client, cluster: Cluster, disk: Path
) -> None:
    driver = Driver(disk)
    async with running_agent(node_client, disk):
        await driver.start()
        await within(driver.registered.wait())
        await cluster.claim("gpu")
        await cluster.pod("hungry", claims=("gpu",))
        await cluster.phase("hungry", "Running")
        filling = asyncio.create_task(_fill_again(disk))  # whatever becomes free is taken at once
        await cluster.delete("hungry")
        await cluster.gone("hungry")
        filling.cancel()
        (disk / "hog").unlink()
    await driver.stop()


async def _fill_again(disk: Path) -> None:
    while True:
        fill(disk)
        await asyncio.sleep(0)
