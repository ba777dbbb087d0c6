"""Commands in running containers: one suite for every runtime that executes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.node.runtime import BindMount, ContainerKey, ExecError, ExecSession, Runtime
from tests.node.test_runtimes import EXECUTING, end, finished, opened, running_with, shell
from tests.waiting import eventually, within

KEY = ContainerKey("pod-1", "main", 0)


@pytest.fixture(params=EXECUTING)
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    runtime = opened(request.param, tmp_path)
    yield runtime
    await end(runtime)


@pytest.fixture
async def container(runtime: Runtime, tmp_path: Path) -> Runtime:
    """A runtime with a container that sleeps."""
    task = shell("cd /; exec sleep 600", env={"OWN": "a b", "MARK": str(tmp_path)}, directory="/usr", hostname="web-0")
    await runtime.start(task)
    assert await ran(runtime, "true")
    return runtime


async def ran(runtime: Runtime, *argv: str) -> bool:
    return (await said(runtime, *argv))[0] == 0


async def everything(session: ExecSession, stream: str = "stdout") -> bytes:
    data = b""
    while more := await session.read(stream):
        data += more
    return data


async def said(runtime: Runtime, *argv: str, stdin: bytes | None = None, tty: bool = False) -> tuple[int, bytes, bytes]:
    """Exit code and output of a command."""
    session = await runtime.exec(KEY, argv, tty=tty, stdin=stdin is not None)
    try:
        if stdin is not None:
            writing = asyncio.ensure_future(session.write(stdin))
            writing.add_done_callback(lambda _: None if tty else session.close_stdin())
        out, err = await within(asyncio.gather(everything(session), everything(session, "stderr")))
        return await within(session.wait()), out, err
    finally:
        session.close()


async def test_a_command_runs_as_the_container_does(container: Runtime) -> None:
    code, out, err = await said(container, "/bin/sh", "-c", 'echo "$OWN"; pwd; echo oops >&2; exit 3')
    assert (code, out, err) == (3, b"a b\n/usr\n", b"oops\n")
    if container.name != "process":
        _, names, _ = await said(container, "/bin/sh", "-c", "hostname; ps ax 2>/dev/null | wc -l; cat /proc/1/comm")
        assert names.split()[0] == b"web-0"
        assert names.split()[-1] in (b"bwrap", b"sleep")


async def test_rights_are_those_of_the_container(container: Runtime, tmp_path: Path) -> None:
    fields = "^(Uid|Gid|Groups|CapEff|CapPrm|NoNewPrivs)"
    [pid] = [p for p in os.listdir("/proc") if p.isdigit() and p != "1" and is_container(tmp_path, p)][-1:]
    expected = [line for line in status(pid) if line.split(":")[0] in fields]
    _, out, _ = await said(container, "grep", "-E", fields, "/proc/self/status")
    assert out.decode().splitlines() == expected


def is_container(mark: Path, pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ") as stream:
            text = stream.read()
        with open(f"/proc/{pid}/comm") as stream:
            return stream.read() == "sleep\n" and f"MARK={mark}" in text
    except OSError:
        return False


def status(pid: str) -> list[str]:
    with open(f"/proc/{pid}/status") as stream:
        return stream.read().splitlines()


async def test_much_goes_through_in_both_directions(container: Runtime) -> None:
    data = os.urandom(3 << 20)
    code, out, _ = await said(container, "cat", stdin=data)
    assert (code, out == data) == (0, True)


async def test_a_terminal_is_a_terminal(container: Runtime) -> None:
    session = await container.exec(KEY, ["/bin/sh", "-c", "test -t 0 && stty size; read x; echo got $x"], tty=True)
    session.resize(132, 43)
    out = await session.read()
    session.resize(100, 20)
    await session.write(b"word\n")
    out += await within(everything(session))
    assert await within(session.wait()) == 0
    session.close()
    assert out.split()[-2:] == [b"got", b"word"]
    assert b"43 132" in out or b"20 100" in out or b"0 0" in out


async def test_control_c_reaches_a_command_with_a_terminal(container: Runtime) -> None:
    session = await container.exec(
        KEY, ["/bin/sh", "-c", "trap 'exit 7' INT; echo up; while :; do sleep 0.05; done"], tty=True
    )
    assert b"up" in await within(session.read())
    await session.write(b"\x03")
    await within(everything(session))
    assert await within(session.wait()) == 7
    session.close()


@pytest.mark.parametrize(
    ("program", "why"),
    [("/nosuch", "stat /nosuch: no such file or directory"), ("nosuch", "executable file not found in $PATH")],
)
async def test_a_program_that_does_not_exist_is_named(container: Runtime, program: str, why: str) -> None:
    session = await container.exec(KEY, [program])
    assert await within(session.wait()) == 127
    assert session.failure == f'exec: "{program}": {why}'
    session.close()


async def test_a_command_ends_when_its_session_is_closed(container: Runtime) -> None:
    mark = str(int(time.time() * 1000) + 3_000_000)
    session = await container.exec(KEY, ["sleep", mark])
    await eventually(lambda: running_with(mark))
    waiting = asyncio.ensure_future(session.wait())
    await asyncio.sleep(0)
    session.close()
    await eventually(lambda: not running_with(mark))
    assert await within(waiting) == 137
    assert await ran(container, "true")


async def test_a_command_ends_with_its_container(container: Runtime) -> None:
    mark = str(int(time.time() * 1000) + 4_000_000)
    session = await container.exec(KEY, ["sleep", mark])
    await eventually(lambda: running_with(mark))
    await container.stop(KEY, 0)
    assert await within(session.wait()) == 137
    session.close()
    await eventually(lambda: not running_with(mark))
    with pytest.raises(ExecError, match="container main is not running"):
        await container.exec(KEY, ["true"])


async def test_what_was_started_before_a_restart_of_the_agent_can_be_entered(
    container: Runtime, tmp_path: Path
) -> None:
    assert await ran(opened(container.name, tmp_path), "true")


async def test_many_at_once(container: Runtime) -> None:
    answers = await asyncio.gather(*(said(container, "echo", str(number)) for number in range(20)))
    assert [(code, out) for code, out, _ in answers] == [(0, f"{number}\n".encode()) for number in range(20)]


async def test_nonsense_on_the_socket_harms_nobody(container: Runtime, tmp_path: Path) -> None:
    here = os.open(directory_below(tmp_path), os.O_PATH)
    for nonsense in (b"", b"{", b"{}\n", b"[]\n", b'{"argv": [], "tty": false}\n'):
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{here}/exec")
        writer.write(nonsense)
        writer.write_eof()
        with contextlib.suppress(ConnectionResetError):
            assert await within(reader.read()) == b""
        writer.close()
    os.close(here)
    assert await ran(container, "true")


def directory_below(root: Path) -> Path:
    """The attempt's; paths of sockets must be short, so the socket is reached through a descriptor."""
    [socket] = root.glob("pods/*/containers/*/*/exec")
    return socket.parent


async def test_what_runs_no_more_or_is_no_command_is_refused(runtime: Runtime) -> None:
    await runtime.start(shell("true"))
    await finished(runtime, KEY)
    with pytest.raises(ExecError, match="container main is not running"):
        await runtime.exec(KEY, ["true"])


async def test_a_shell_in_a_terminal_ends_as_it_was_told_to(container: Runtime) -> None:
    code, _, _ = await said(container, "/bin/sh", "-i", stdin=b"echo hi\nexit 5\n", tty=True)
    assert code == 5


async def test_a_command_that_is_the_guardians_own_program_cannot_change_it(runtime: Runtime, tmp_path: Path) -> None:
    """`#!/proc/self/exe` makes the kernel run what is about to become the command: the interpreter of the host."""
    if not runtime.mounts_volumes:
        pytest.skip(f"{runtime.name} isolates nothing")
    volume = tmp_path / "volume"
    volume.mkdir()
    script = volume / "script"
    later = "sleep 0.1; : >> /proc/self/fd/{file} && echo written"
    script.write_text(
        "#!/proc/self/exe\nimport os\nfile = os.open('/proc/self/exe', os.O_PATH)\nos.set_inheritable(file, True)\n"
        f"os.write(1, b'begun ')\nos.execv('/bin/sh', ['sh', '-c', f'{later}'])\n"
    )
    script.chmod(0o755)
    await runtime.start(shell("exec sleep 600", mounts=(BindMount(str(volume), "/volume"),)))
    _, output, _ = await said(runtime, "/volume/script")
    assert output in (b"begun ", b"")  # nothing, where the interpreter does not find its library in the container
