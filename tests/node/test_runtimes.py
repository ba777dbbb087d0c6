"""One suite for every runtime; those that this machine cannot run are skipped by name."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from dray.api.cdi import CdiDeviceNode, CdiEdits, CdiHook, CdiMount
from dray.node import runtimes, shim
from dray.node.bwrap import BwrapWrapper
from dray.node.fake import FakeRuntime
from dray.node.oci import OciWrapper
from dray.node.played import EXIT_CODE, SECONDS
from dray.node.process import ProcessWrapper
from dray.node.runtime import BindMount, ContainerAttempt, ContainerKey, ContainerStartError, Runtime, Task
from dray.node.supervised import Supervised
from tests.waiting import eventually, within

WRAPPERS = {"process": ProcessWrapper, "bwrap": BwrapWrapper, "oci": OciWrapper}
EXECUTING = ("process", "bwrap", "oci")


unavailable = cache(runtimes.unavailable)  # finding out takes as long as running a container


def opened(name: str, root: Path) -> Runtime:
    if why := unavailable(name):
        pytest.skip(f"{name}: {why}")
    return FakeRuntime() if name == "fake" else Supervised(root, WRAPPERS[name]())


@pytest.fixture(params=runtimes.NAMES)
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    runtime = opened(request.param, tmp_path)
    yield runtime
    await end(runtime)


@pytest.fixture(params=EXECUTING)
async def executing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    runtime = opened(request.param, tmp_path)
    yield runtime
    await end(runtime)


async def end(runtime: Runtime) -> None:
    for pod in [*runtime.pods()]:
        for attempt in runtime.attempts(pod):
            if attempt.running:
                await runtime.stop(attempt.key, 0)
        runtime.remove(pod)


def shell(script: str, attempt: int = 0, **more: object) -> Task:
    return Task(ContainerKey("pod-1", "main", attempt), ("/bin/sh", "-c", script), **more)  # type: ignore[arg-type]  # fields by name


async def finished(runtime: Runtime, key: ContainerKey) -> ContainerAttempt:
    await within(runtime.wait(key))
    [attempt] = [attempt for attempt in runtime.attempts(key.pod) if attempt.key == key]
    return attempt


def written(runtime: Runtime, key: ContainerKey) -> list[str]:
    """The lines of a log, without time and stream."""
    file = runtime.log(key)
    assert file is not None
    return [line.split(" ", 3)[3] for line in file.read_text().splitlines()]


async def begun(runtime: Runtime, trap: str, **more: object) -> Task:
    """A container that has set a trap for SIGTERM, has said so, and waits."""
    task = shell(f"trap '{trap}' TERM; echo ready; while :; do sleep 0.05; done", **more)
    await runtime.start(task)
    if runtime.name != "fake":
        await eventually(lambda: runtime.log(task.key) and written(runtime, task.key) == ["ready"])
    return task


async def output(runtime: Runtime, task: Task) -> list[str]:
    await runtime.start(task)
    attempt = await finished(runtime, task.key)
    assert attempt.exit_code == 0, (attempt, written(runtime, task.key))
    return written(runtime, task.key)


# What every runtime does


@pytest.mark.parametrize("code", [0, 7])
async def test_the_exit_code_is_told(runtime: Runtime, code: int) -> None:
    task = shell(f"exit {code}", annotations={SECONDS: "0", EXIT_CODE: str(code)})
    begun = time.time()
    await runtime.start(task)
    attempt = await finished(runtime, task.key)
    assert (attempt.exit_code, attempt.reason) == (code, "Error" if code else "Completed")
    assert begun - 1 < attempt.started <= attempt.finished < time.time() + 1


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("nosuch", "executable file not found in $PATH"),
        ("/nosuch", "stat /nosuch: no such file or directory"),
        ("/etc/passwd", "permission denied"),
    ],
)
async def test_a_program_that_cannot_be_run_is_no_container_that_failed(
    executing: Runtime, program: str, why: str, tty: bool
) -> None:
    task = Task(ContainerKey("pod-1", "main", 0), (program,), tty=tty)
    await executing.start(task)
    attempt = await finished(executing, task.key)
    assert (attempt.exit_code, attempt.reason, attempt.message) == (128, "StartError", f'exec: "{program}": {why}')


async def test_a_second_start_of_an_attempt_starts_nothing(runtime: Runtime) -> None:
    first = await runtime.start(shell("sleep 60"))
    assert await runtime.start(shell("sleep 60")) == first
    assert runtime.attempts("pod-1") == [first]


async def test_stopping_ends_a_container(runtime: Runtime) -> None:
    task = await begun(runtime, "exit 3")
    await within(runtime.stop(task.key, 600))
    [attempt] = runtime.attempts("pod-1")
    assert attempt.exit_code == (143 if runtime.name == "fake" else 3)


async def test_a_removed_pod_is_forgotten(runtime: Runtime) -> None:
    task = shell("true", annotations={SECONDS: "0"})
    await runtime.start(task)
    await finished(runtime, task.key)
    assert [*runtime.pods()] == ["pod-1"]
    runtime.remove("pod-1")
    assert [*runtime.pods()] == []
    await runtime.wait(task.key)


async def test_attempts_are_told_apart(runtime: Runtime) -> None:
    for number in range(2):
        task = shell("exit 1", number, quick_ends=number, annotations={SECONDS: "0", EXIT_CODE: "1"})
        await runtime.start(task)
        await finished(runtime, task.key)
    assert [(a.key.attempt, a.quick_ends, a.exit_code) for a in runtime.attempts("pod-1")] == [(0, 0, 1), (1, 1, 1)]


# What runtimes that execute do


async def test_output_is_kept_with_time_and_stream(executing: Runtime) -> None:
    task = shell("echo out; echo err >&2; printf rest")
    await executing.start(task)
    await finished(executing, task.key)
    file = executing.log(task.key)
    assert file is not None
    lines = [line.split(" ", 3) for line in file.read_text().splitlines()]
    assert sorted(line[1:] for line in lines) == [
        ["stderr", "F", "err"],
        ["stdout", "F", "out"],
        ["stdout", "P", "rest"],
    ]
    assert all(line[0].startswith("20") and line[0].endswith("Z") for line in lines)


async def test_home_is_the_last_variable_unless_the_pod_sets_it(executing: Runtime) -> None:
    edits = CdiEdits(env=("GPU=7",))

    async def names(attempt: int, **env: str) -> list[str]:
        task = replace(shell("", attempt, env=env, edits=edits), argv=("/usr/bin/env",))
        lines = await output(executing, task)
        return [line.partition("=")[0] for line in lines if line]

    assert (await names(0, OWN="a"))[-3:] == ["OWN", "GPU", "HOME"]
    assert (await names(1, HOME="/x", OWN="a"))[-3:] == ["HOME", "OWN", "GPU"]


async def test_environment_of_pod_and_devices_reach_the_container(executing: Runtime) -> None:
    edits = CdiEdits(env=("GPU=7", "SHARED=device"))
    task = shell("echo $OWN $GPU $SHARED $HOSTNAME", env={"OWN": "a b", "SHARED": "pod"}, edits=edits, hostname="web-0")
    assert await output(executing, task) == ["a b 7 device web-0"]


async def test_the_working_directory_is_the_one_asked_for(executing: Runtime) -> None:
    assert await output(executing, shell("pwd", directory="/usr")) == ["/usr"]


async def test_a_container_that_does_not_listen_is_killed_after_its_grace(executing: Runtime) -> None:
    task = await begun(executing, "")
    await executing.stop(task.key, 0.3)
    [attempt] = executing.attempts("pod-1")
    assert (attempt.exit_code, attempt.reason) == (137, "Error")


async def test_a_second_stop_shortens_the_first(executing: Runtime) -> None:
    task = await begun(executing, "")
    slow = asyncio.create_task(executing.stop(task.key, 600))
    await asyncio.sleep(0.3)
    await executing.stop(task.key, 0)
    await within(slow)


async def test_a_command_that_does_not_exist_is_named(executing: Runtime) -> None:
    task = Task(ContainerKey("pod-1", "main", 0), ("/no/such/program",))
    await executing.start(task)
    attempt = await finished(executing, task.key)
    assert attempt.exit_code
    text = attempt.message + " ".join(written(executing, task.key))
    assert "/no/such/program" in text


async def test_what_a_container_leaves_behind_ends_with_it(executing: Runtime, tmp_path: Path) -> None:
    mark = str(int(time.time() * 1000) + 1_000_000)
    task = shell(f"sleep {mark} & exit 0")
    await executing.start(task)
    await finished(executing, task.key)
    await eventually(lambda: not running_with(mark))


async def test_daemons_of_a_container_and_of_commands_in_it_end_with_it(executing: Runtime, tmp_path: Path) -> None:
    """Whoever leaves the process group of the container would use its devices after they are given to somebody else."""
    mark = str(int(time.time() * 1000) + 3_000_000)
    task = shell(f"setsid sleep {mark} & setsid sh -c 'setsid sleep {mark} & sleep {mark}' & sleep 600")
    await executing.start(task)
    session = await executing.exec(task.key, ("/bin/sh", "-c", f"setsid sleep {mark} > /dev/null 2>&1 & exit 0"))
    await within(session.wait())
    session.close()
    await eventually(lambda: running_with(mark))
    await within(executing.stop(task.key, 0))
    await finished(executing, task.key)
    assert not running_with(mark)  # at once: the devices are given back next


async def test_processes_that_lost_their_parent_do_not_pile_up(executing: Runtime, tmp_path: Path) -> None:
    flood = (
        "for i in 1 2 3 4 5 6 7 8 9; do (setsid sh -c 'sleep 0.1 & exit 0' &); done; sleep 0.5; echo done; sleep 600"
    )
    task = shell(flood)
    await executing.start(task)
    await eventually(lambda: "done" in written(executing, task.key))
    guardian = guardian_of(tmp_path / "pods/pod-1/containers/main")
    await eventually(lambda: not [pid for pid in shim.children_of(guardian) if _state(pid) == "Z"])


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


async def test_a_container_survives_its_agent_and_is_found_again(executing: Runtime, tmp_path: Path) -> None:
    task = await begun(executing, "echo after; exit 5", quick_ends=2)
    [started] = executing.attempts("pod-1")
    another = opened(executing.name, tmp_path)
    assert another.attempts("pod-1") == [started]
    assert started.quick_ends == 2
    await within(another.stop(task.key, 600))
    attempt = await finished(another, task.key)
    assert (attempt.exit_code, written(another, task.key)) == (5, ["ready", "after"])


async def test_a_container_whose_guardian_was_killed_is_given_up(executing: Runtime, tmp_path: Path) -> None:
    mark = str(int(time.time() * 1000) + 2_000_000)
    task = shell(f"sleep {mark}; true")
    await executing.start(task)
    guardian = guardian_of(tmp_path / "pods/pod-1/containers/main")
    os.kill(guardian, signal.SIGKILL)
    attempt = await finished(executing, task.key)
    assert (attempt.exit_code, attempt.reason) == (137, "ContainerStatusUnknown")
    await eventually(lambda: not running_with(mark))


async def test_an_attempt_that_never_began_is_forgotten_and_cannot_begin(executing: Runtime, tmp_path: Path) -> None:
    directory = tmp_path / "pods/pod-1/containers/main/0-token"
    directory.mkdir(parents=True)
    ours = os.open(directory / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(ours, fcntl.LOCK_EX)
    late = await guardian(directory)  # waits for the lock, as if it had been started by an agent that was killed
    await eventually(lambda: has_open(late.pid, directory / "lock"))
    shutil.rmtree(directory)
    os.close(ours)
    assert await late.wait() == 0
    directory.mkdir(parents=True)
    assert executing.attempts("pod-1") == []
    assert not directory.exists()
    assert await (await guardian(directory)).wait() != 0
    assert await output(executing, shell("echo first")) == ["first"]


async def test_a_container_that_is_stopped_before_its_process_is_known_hears_of_it(tmp_path: Path) -> None:
    """A runtime tells the pid when the container runs already."""
    pid, known = tmp_path / "pid", tmp_path / "known"
    told = f"while [ ! -e {known} ]; do sleep 0.05; done; echo $$ > {pid}"
    script = f"trap 'exit 3' TERM; echo ready; {told}; while :; do sleep 0.05; done"
    task = {"argv": ["/bin/sh", "-c", script], "env": {"PATH": os.environ["PATH"]}, "directory": "/"}
    (tmp_path / "task.json").write_text(json.dumps({**task, "depth": 0, "pid_file": str(pid)}))
    process = await guardian(tmp_path)
    await eventually(lambda: (log := tmp_path / "log").exists() and "ready" in log.read_text())
    process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.2)
    assert process.returncode is None
    known.touch()
    await within(process.wait())
    assert json.loads((tmp_path / "exit.json").read_text())["code"] == 3


async def guardian(directory: Path) -> asyncio.subprocess.Process:
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", shim.__file__, str(directory), stdout=quiet, stderr=quiet
    )


# Mounts, devices and hooks


@pytest.fixture(params=["bwrap", "oci"])
async def isolating(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    runtime = opened(request.param, tmp_path)
    yield runtime
    await end(runtime)


@pytest.mark.parametrize(
    "target", ["/data", "/opt/dray-test/deep/lib", "/usr/share/dray-test", "/tmp/a/b", "/mnt", "/var/run/secrets/a"]
)
async def test_mounts_appear_wherever_they_should(isolating: Runtime, tmp_path: Path, target: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_text("hello")
    edits = CdiEdits(mounts=(CdiMount(str(source), target, ("ro", "nosuid", "nodev", "bind")),))
    script = f"cat {target}/file; touch {target}/x 2>/dev/null || echo ' read-only'; ls /usr/bin/env"
    assert await output(isolating, shell(script, edits=edits)) == ["hello read-only", "/usr/bin/env"]


async def test_volumes_are_written_to(isolating: Runtime, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    task = shell("echo kept > /cache/file", mounts=(BindMount(str(tmp_path / "volume"), "/cache"),))
    await output(isolating, task)
    assert (tmp_path / "volume" / "file").read_text() == "kept\n"


async def test_a_part_of_a_volume_is_mounted_and_nothing_else(isolating: Runtime, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "deep" / "part").mkdir(parents=True)
    (volume / "deep" / "part" / "in").write_text("part\n")
    (volume / "file").write_text("alone\n")
    (volume / "link").symlink_to("deep/part")
    mounts = (
        BindMount(str(volume), "/part", subpath="link"),
        BindMount(str(volume), "/etc/alone", readonly=True, subpath="file"),
        BindMount(str(volume), "/whole"),
    )
    script = "cat /part/in /etc/alone; touch /part/new; echo x 2>/dev/null >/etc/alone || echo kept; ls /whole"
    assert await output(isolating, shell(script, mounts=mounts)) == ["part", "alone", "kept", "deep", "file", "link"]
    assert (volume / "deep/part/new").exists()


async def test_a_part_that_became_a_link_to_the_host_is_not_mounted(isolating: Runtime, tmp_path: Path) -> None:
    """What was a directory when the agent looked may be a link when it is mounted."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "part").symlink_to("/etc")
    task = shell("ls /part", mounts=(BindMount(str(tmp_path / "volume"), "/part", subpath="part"),))
    await isolating.start(task)
    attempt = await finished(isolating, task.key)
    assert attempt.exit_code
    assert "leads out of its volume" in " ".join(written(isolating, task.key))


async def test_process_does_not_start_what_it_cannot_mount(tmp_path: Path) -> None:
    runtime = runtimes.open_runtime("process", tmp_path)
    mounts = (BindMount("/usr", "/usr"), BindMount(str(tmp_path), "/data"))
    with pytest.raises(ContainerStartError, match=r"the runtime process cannot apply: volume at /data$"):
        await runtime.start(shell("touch /data/x", mounts=mounts))
    assert runtime.attempts("pod-1") == []


async def test_others_cannot_read_what_a_container_was_given(executing: Runtime, tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    mask = os.umask(0)
    try:
        await output(executing, shell("echo said", env={"PASSWORD": "secret"}))
    finally:
        os.umask(mask)
    assert readable_to_others(tmp_path / "pods") == []


def readable_to_others(pods: Path) -> list[Path]:
    """Files with a secret in them, and the directory of all, where others may look."""
    told = [file for file in pods.rglob("*") if file.is_file() and not file.is_symlink()]
    secret = [file for file in told if b"secret" in file.read_bytes()]
    assert secret
    return [file for file in (pods, *secret) if file.stat().st_mode & 0o077]


async def test_device_nodes_appear_under_their_name(isolating: Runtime) -> None:
    edits = CdiEdits(deviceNodes=(CdiDeviceNode("/dev/gpu0", "/dev/null"), CdiDeviceNode("/dev/zero")))
    script = "test -c /dev/gpu0 && echo x > /dev/gpu0 && head -c1 /dev/zero | wc -c; ls /dev | grep -c loop"
    task = shell(script + "; true", edits=edits)
    assert (await output(isolating, task))[0].strip() == "1"


async def test_processes_of_the_host_are_out_of_sight(isolating: Runtime) -> None:
    [count] = await output(isolating, shell("ls /proc | grep -c '^[0-9]'"))
    assert int(count) < 8


async def test_a_mount_of_nothing_is_refused(isolating: Runtime) -> None:
    edits = CdiEdits(mounts=(CdiMount("/no/such/directory", "/data"),))
    with pytest.raises(ContainerStartError, match="/no/such/directory"):
        await isolating.start(shell("true", edits=edits))
    assert isolating.attempts("pod-1") == []


async def test_oci_runs_hooks_and_adds_groups(tmp_path: Path) -> None:
    runtime = opened("oci", tmp_path)
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat > {tmp_path}/state\necho $WORD $1 > {tmp_path}/ran\n")
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    edits = CdiEdits(
        hooks=(CdiHook("createRuntime", str(hook), ("hook", "argument"), ("WORD=said", "PATH=/bin:/usr/bin"), 60),),
        additionalGids=(4711,),
    )
    assert runtime.cannot(shell("true", edits=edits)) == []
    assert "4711" in (await output(runtime, shell("id -G", edits=edits)))[0].split()
    assert (tmp_path / "ran").read_text() == "said argument\n"
    await end(runtime)


async def test_what_cannot_be_applied_is_said(tmp_path: Path) -> None:
    edits = CdiEdits(
        env=("A=b",),
        deviceNodes=(CdiDeviceNode("/dev/null"), CdiDeviceNode("/dev/gpu0", "/dev/null")),
        mounts=(CdiMount("/usr", "/usr"), CdiMount("/usr", "/elsewhere", ("noexec",))),
        hooks=(CdiHook("poststart", "/bin/true"),),
        additionalGids=(5,),
    )
    task = shell("true", edits=edits)
    said = {name: runtimes.open_runtime(name, tmp_path).cannot(task) for name in ("fake", "process")}
    said["bwrap"] = BwrapWrapper().cannot(task)
    said["oci"] = OciWrapper().cannot(task)
    both = ["additional groups 5", "poststart hook /bin/true"]
    assert said == {
        "fake": [],
        "process": ["device node /dev/gpu0", "mount of /usr at /elsewhere", *both],
        "bwrap": ["options noexec of the mount at /elsewhere", *both],
        "oci": [],
    }


def test_auto_is_bwrap_where_it_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    works = not runtimes.unavailable("bwrap")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert runtimes.open_runtime("auto", tmp_path).name == ("bwrap" if works else "process")
    monkeypatch.setenv("PATH", "/nowhere")
    assert runtimes.open_runtime("auto", tmp_path).name == "process"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(runtimes.RuntimeUnavailable, match="as root, containers run without isolation only"):
        runtimes.open_runtime("auto", tmp_path)
    assert runtimes.open_runtime("process", tmp_path).name == "process"
    with pytest.raises(runtimes.RuntimeUnavailable, match="bwrap is not installed"):
        runtimes.open_runtime("bwrap", tmp_path)
    with pytest.raises(runtimes.RuntimeUnavailable, match="expected one of auto, fake, process, bwrap, oci"):
        runtimes.open_runtime("docker", tmp_path)


def guardian_of(directory: Path) -> int:
    [file] = directory.glob("*/pid.json")
    return int(json.loads(file.read_text())["shim"])


def has_open(process: int, file: Path) -> bool:
    return any(os.path.realpath(entry) == str(file) for entry in Path(f"/proc/{process}/fd").iterdir())


def running_with(argument: str) -> bool:
    """Whether some process has this argument."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and argument in (entry / "cmdline").read_text().split("\0"):
                return True
        except OSError:
            continue
    return False
