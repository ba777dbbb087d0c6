"""Standard input and output of containers, for those who attach: one suite for every runtime that executes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.node.runtime import ContainerKey, ContainerStartError, ExecError, ExecSession, Runtime, Task
from dray.node.security import ContainerSecurity
from tests.node.test_execution import everything
from tests.node.test_runtimes import EXECUTING, end, finished, opened, shell, written
from tests.waiting import eventually, linger, within

KEY = ContainerKey("pod-1", "main", 0)


@pytest.fixture(params=EXECUTING)
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    runtime = opened(request.param, tmp_path)
    yield runtime
    await end(runtime)


async def heard(session: ExecSession, expected: bytes, stream: str = "stdout") -> bytes:
    """Output up to and with what is expected."""
    data = b""
    while expected not in data:
        more = await within(session.read(stream))
        assert more, data
        data += more
    return data


async def test_input_comes_from_whoever_attaches_and_output_goes_there_and_to_the_log(runtime: Runtime) -> None:
    await runtime.start(shell("cat; echo over >&2; exit 3", stdin=True, stdin_once=True))
    session = await runtime.attach(KEY, stdin=True)
    await session.write(b"one\ntwo\n")
    session.close_stdin()
    out, err = await within(asyncio.gather(everything(session), everything(session, "stderr")))
    assert (out, err, await within(session.wait())) == (b"one\ntwo\n", b"over\n", 3)
    session.close()
    await finished(runtime, KEY)
    lines = written(runtime, KEY)  # in the order of each stream; the streams are two pipes, read in any order
    assert [line for line in lines if line != "over"] == ["one", "two"]
    assert sorted(lines) == ["one", "over", "two"]


async def test_input_that_is_not_for_one_alone_outlives_who_attached(runtime: Runtime) -> None:
    await runtime.start(shell("while read word; do echo got $word; done; echo never", stdin=True))
    for word in (b"a", b"b"):
        session = await runtime.attach(KEY, stdin=True)
        await session.write(word + b"\n")
        await heard(session, b"got " + word)
        session.close()
    [attempt] = runtime.attempts("pod-1")
    assert attempt.running


async def test_input_for_one_alone_ends_when_that_one_hangs_up(runtime: Runtime) -> None:
    await runtime.start(shell("cat; echo ended; sleep 600", stdin=True, stdin_once=True))
    watcher = await runtime.attach(KEY)
    session = await runtime.attach(KEY, stdin=True)
    await session.write(b"word\n")
    await heard(session, b"word\n")
    session.close()
    await heard(watcher, b"ended")
    later = await runtime.attach(KEY, stdin=True)
    await later.write(b"nobody reads this\n")
    for open_ in (watcher, later):
        open_.close()


async def test_whoever_sends_nothing_does_not_end_the_input(runtime: Runtime) -> None:
    await runtime.start(shell("read word; echo got $word; sleep 600", stdin=True, stdin_once=True))
    watcher = await runtime.attach(KEY)
    session = await runtime.attach(KEY, stdin=True)
    await session.write(b"it\n")
    await heard(watcher, b"got it")
    watcher.close()
    session.close()


async def test_a_container_without_input_reads_nothing(runtime: Runtime) -> None:
    await runtime.start(shell("cat; echo end; sleep 600"))
    await eventually(lambda: written(runtime, KEY) == ["end"])
    session = await runtime.attach(KEY, stdin=True)
    await session.write(b"lost\n")
    await linger(0.05)
    session.close()
    assert written(runtime, KEY) == ["end"]


AGENTS_OWN = ContainerSecurity()
ANOTHER = pytest.param(
    ContainerSecurity(user=1234, group=2345),
    marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a container another user everywhere"),
)


@pytest.mark.parametrize("security", [AGENTS_OWN, ANOTHER], ids=["own user", "another user"])
async def test_a_terminal_echoes_has_a_size_and_survives_who_left(
    runtime: Runtime, security: ContainerSecurity
) -> None:
    script = "test -t 0 && echo terminal; while read word; do stty size; done"
    await runtime.start(shell(script, stdin=True, tty=True, security=security))
    await eventually(lambda: [line.strip() for line in written(runtime, KEY)] == ["terminal"])
    for width in (91, 57):
        session = await runtime.attach(KEY, stdin=True)
        session.resize(width, 33)
        await eventually(lambda session=session, width=width: told_size(session, f"33 {width}".encode()))
        session.close()


async def test_a_shell_in_a_terminal_ends_as_it_was_told_to(runtime: Runtime) -> None:
    await runtime.start(Task(KEY, ("/bin/sh", "-i"), stdin=True, tty=True))
    session = await runtime.attach(KEY, stdin=True)
    await session.write(b"sleep 600\n")
    await heard(session, b"sleep 600")
    while not (await finished_soon(session)):
        await session.write(b"\3exit 5\n")  # interrupts what runs, and ends the shell
    assert (await finished(runtime, KEY)).exit_code == 5
    session.close()


async def finished_soon(session: ExecSession) -> bool:
    try:
        return await asyncio.wait_for(everything(session), 0.3) is not None
    except TimeoutError:
        return False


async def told_size(session: ExecSession, size: bytes) -> bool:
    """Ask for the size of the terminal; it takes a moment until the container has heard of a new one."""
    await session.write(b"go\n")
    return size in await heard(session, b" ")


async def test_nothing_is_lost_on_a_client_that_reads_late(runtime: Runtime) -> None:
    size = 4 << 20
    await runtime.start(shell(f"read go; head -c {size} /dev/zero; echo end", stdin=True))
    session = await runtime.attach(KEY, stdin=True)
    await session.write(b"go\n")
    await linger(0.2)
    assert len(await within(everything(session))) == size + len(b"end\n")
    session.close()


async def test_a_client_that_never_reads_does_not_keep_a_container_from_ending(runtime: Runtime) -> None:
    await runtime.start(shell("read go; head -c 4194304 /dev/zero; sleep 600", stdin=True))
    session = await runtime.attach(KEY, stdin=True)
    await session.write(b"go\n")
    await within(runtime.stop(KEY, 0))
    assert (await finished(runtime, KEY)).exit_code is not None
    session.close()


async def test_nobody_attaches_to_what_has_ended(runtime: Runtime) -> None:
    await runtime.start(shell("true"))
    await finished(runtime, KEY)
    with pytest.raises(ExecError, match="not running"):
        await runtime.attach(KEY)


@pytest.mark.parametrize("tty", [False, True], ids=["", "terminal"])
@pytest.mark.parametrize("security", [AGENTS_OWN, ANOTHER], ids=["own user", "another user"])
async def test_a_container_sees_the_processes_of_its_target(
    runtime: Runtime, security: ContainerSecurity, tty: bool
) -> None:
    await runtime.start(shell("echo here; exec sleep 4321", security=security))
    await eventually(lambda: written(runtime, KEY) == ["here"])
    other = ContainerKey("pod-1", "debugger", 0)
    look = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null; sleep 600"
    await runtime.start(Task(other, ("/bin/sh", "-c", look), target="main", tty=tty, security=security))
    await eventually(lambda: "sleep 4321" in [line.strip() for line in written(runtime, other)])
    if runtime.name != "process":
        assert not [line for line in written(runtime, other) if "pytest" in line]
    session = await runtime.exec(other, ["echo", "inside"])
    assert await within(everything(session)) == b"inside\n"
    session.close()
    await within(runtime.stop(other, 0))
    assert {a.key.container: a.running for a in runtime.attempts("pod-1")} == {"main": True, "debugger": False}


async def test_a_target_that_does_not_run_is_named(runtime: Runtime) -> None:
    with pytest.raises(ContainerStartError, match="target container main is not running"):
        await runtime.start(Task(ContainerKey("pod-1", "debugger", 0), ("true",), target="main"))
