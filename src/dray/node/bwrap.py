"""Runtime `bwrap`: bubblewrap gives a container its own mounts, devices and processes, without root.

The host's file system read-only, its network shared. Hooks and edits that need an OCI runtime cannot be made, nor can
access to a device be narrowed. It is no boundary against a hostile container: it sees the host's files as the agent does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dray.node import rootfs
from dray.node.cdi import DeviceNode, Edits
from dray.node.cdi import Mount as CdiMount
from dray.node.process import environment, hooks, rare
from dray.node.runtime import StartError, Task
from dray.node.supervised import Launch

_TRIAL_SECONDS = 10.0
# What bubblewrap does anyway, or what makes no difference to a bind mount.
_MOUNT_OPTIONS = {"ro", "rw", "bind", "rbind", "nosuid", "nodev", "private", "rprivate"}


class BwrapWrapper:
    """Puts bubblewrap's options before the command line."""

    name = "bwrap"
    mounts_volumes = True

    def unavailable(self) -> str:
        program = shutil.which("bwrap")
        if program is None:
            return "bwrap is not installed"
        trial = [program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "true"]
        try:
            done = subprocess.run(trial, capture_output=True, timeout=_TRIAL_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{program} does not work here: {error}"
        return "" if done.returncode == 0 else f"{program} does not work here: {done.stderr.decode().strip()}"

    def cannot(self, task: Task) -> list[str]:
        return [*_partly(task.edits), *rare(task.edits), *hooks(task.edits)]

    def launch(self, task: Task, directory: Path) -> Launch:
        program = shutil.which("bwrap") or "bwrap"
        arguments = [*_root(task), *_mounts(task), *_devices(task.edits)]
        options = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--hostname", task.hostname]
        argv = [program, *options, *arguments, "--chdir", task.directory or "/", "--", *task.argv]
        # bwrap → its first process in the new namespace → the container
        return Launch(argv, environment(task, "/root"), "/", depth=2)

    def clean(self, directory: Path) -> None:
        pass


def _partly(edits: Edits) -> Iterator[str]:
    for node in edits.deviceNodes:
        if node.permissions and not set(node.permissions) >= {"r", "w"}:
            yield f"permissions {node.permissions} of device node {node.path}"
        if not os.path.exists(node.source):
            yield f"device node {node.path}, since {node.source} does not exist on the host"
    for mount in edits.mounts:
        if mount.type not in ("", "none", "bind", "tmpfs"):
            yield f"mount of type {mount.type} at {mount.containerPath}"
        elif unknown := sorted(set(mount.options) - _MOUNT_OPTIONS):
            yield f"options {', '.join(unknown)} of the mount at {mount.containerPath}"


def _root(task: Task) -> Iterator[str]:
    targets = [mount.target for mount in task.mounts] + [mount.containerPath for mount in task.edits.mounts]
    for step in rootfs.plan([*targets, *(node.path for node in task.edits.deviceNodes)]):
        if step.kind == rootfs.TMPFS:
            yield from ("--tmpfs", step.target)
        elif step.kind == rootfs.SYMLINK:
            yield from ("--symlink", step.source, step.target)
        else:
            yield from ("--ro-bind", step.source, step.target)
    yield from ("--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys")


def _mounts(task: Task) -> Iterator[str]:
    for volume in task.mounts:
        yield from ("--ro-bind" if volume.readonly else "--bind", _existing(volume.source), rootfs.place(volume.target))
    for mount in task.edits.mounts:
        yield from _mount(mount)


def _mount(mount: CdiMount) -> tuple[str, ...]:
    if mount.type == "tmpfs":
        return ("--tmpfs", rootfs.place(mount.containerPath))
    if mount.type not in ("", "none", "bind"):
        return ()
    how = "--ro-bind" if "ro" in mount.options else "--bind"
    return (how, _existing(mount.hostPath), rootfs.place(mount.containerPath))


def _devices(edits: Edits) -> Iterator[str]:
    for node in edits.deviceNodes:
        if _present(node):
            yield from ("--dev-bind", node.source, node.path)


def _present(node: DeviceNode) -> bool:
    return os.path.exists(node.source)


def _existing(path: str) -> str:
    if not os.path.exists(path):
        raise StartError(f"cannot mount {path}: it does not exist on the host")
    return path
