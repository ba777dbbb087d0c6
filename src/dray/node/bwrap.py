"""Runtime `bwrap`: bubblewrap gives a container its own mounts, devices and processes, without root.

The host's file system is read-only and its network is shared. CDI hooks and edits that need an OCI runtime cannot be
applied, and access to a device cannot be restricted. This is no security boundary against a hostile container, which
sees the host's files with the agent's rights.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dray.api.cdi import CdiEdits, CdiMount
from dray.node import rootfs
from dray.node.process import environment, existing, network_files, rare
from dray.node.runtime import Task
from dray.node.shim import REPORT_DESCRIPTOR
from dray.node.staging import staged
from dray.node.supervised import Launch

_TRIAL_SECONDS = 10.0
_NEVER = ("MKNOD",)  # without a device cgroup, nothing would restrict a device node that the container creates
# Options that bubblewrap applies anyway, or that make no difference to a bind mount.
_MOUNT_OPTIONS = {"ro", "rw", "bind", "rbind", "nosuid", "nodev", "private", "rprivate"}


class BwrapWrapper:
    """Command line wrapper that starts a container's command under bubblewrap."""

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
        return [*_partly(task.edits), *rare(task.edits)]

    def refuses(self, task: Task) -> list[str]:
        security, root = task.security, os.geteuid() == 0
        asked = {
            "privileged, since the agent does not run as root": security.privileged and not root,
            security.not_given: bool(security.not_given),
            f"groups {', '.join(map(str, security.groups))}": bool(security.groups),
            f"targetContainerName {task.target}, since the agent does not run as root": bool(task.target) and not root,
            **{
                f"mountPropagation Bidirectional at {mount.target}": True
                for mount in task.mounts
                if mount.propagation == "Bidirectional"
            },
        }
        return [what for what, holds in asked.items() if holds]

    def launch(self, task: Task, directory: Path) -> Launch:
        program = shutil.which("bwrap") or "bwrap"
        prefix, mounts = staged([*task.mounts, *network_files(task)], task.rootfs, directory)
        task = replace(task, mounts=tuple(mounts))
        root = [*_image(task, directory)] if task.rootfs else [*_root(task)]
        arguments = [*root, *_system(task), *_mounts(task), *_devices(task.edits), *_readonly(task)]
        inside, pids = task.directory or "/", _pids(task)
        env = {"PWD": inside, **environment(task, "/root")}  # bwrap would append PWD, and HOME comes last
        own = [] if pids or task.security.host_pid else ["--unshare-pid"]
        options = [*own, "--unshare-uts", "--die-with-parent", "--hostname", task.hostname, *_rights(task)]
        options += ["--json-status-fd", str(REPORT_DESCRIPTOR)]
        argv = [*prefix, program, *options, *arguments, "--chdir", task.directory or "/", "--", *task.argv]
        # bwrap → its first process in a new namespace, or a process that waits outside → bwrap → the container
        depth = 1 if task.security.host_pid else 2
        report = str(directory / "report")
        return Launch(argv, env, "/", depth=depth, inside=inside, pids=pids, report=report)

    def clean(self, directory: Path) -> None:
        pass


def _partly(edits: CdiEdits) -> Iterator[str]:
    """Yield texts that name the edits which bubblewrap cannot apply, or only in part."""
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
    """Yield the options that build the root file system of a container without image."""
    targets = [mount.target for mount in task.mounts] + [mount.containerPath for mount in task.edits.mounts]
    for step in rootfs.plan([*targets, *(node.path for node in task.edits.deviceNodes)]):
        if step.kind == rootfs.TMPFS:
            yield from ("--tmpfs", step.target)
        elif step.kind == rootfs.SYMLINK:
            yield from ("--symlink", step.source, step.target)
        else:
            yield from ("--ro-bind", step.source, step.target)


def _image(task: Task, directory: Path) -> Iterator[str]:
    """Yield the options that mount an image as root file system.

    `directory` is the directory of the attempt, with the image at `rootfs`.
    """
    yield from ("--bind", str(directory / "rootfs"), "/")
    if task.directory:
        yield from ("--dir", rootfs.place_in(task.rootfs, task.directory))


def _system(task: Task) -> Iterator[str]:
    """Yield the options for /proc, /dev and /sys."""
    if task.security.privileged:
        yield from ("--proc", "/proc", "--dev-bind", "/dev", "/dev", "--bind", "/sys", "/sys")
    else:
        yield from ("--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys")


def _pids(task: Task) -> str:
    """Return the PID namespace that the guardian must enter: a path, "new" for a new namespace, or "" for none.

    The path is the namespace of the container to debug (`target_pid`). A container with a terminal needs a new
    namespace. Only root can enter a namespace. bwrap could enter the target's itself, but not together with a user
    namespace.
    """
    if os.geteuid() != 0 or task.security.host_pid:
        return ""
    if task.target_pid:
        return f"/proc/{task.target_pid}/ns/pid"
    return "new" if task.tty else ""


def _rights(task: Task) -> Iterator[str]:
    """Yield bwrap's options for the user, the group, IPC and capabilities.

    A user other than the agent's exists only in a user namespace; on the host the container still runs as the
    agent's user.
    """
    security = task.security
    if not security.host_ipc:
        yield "--unshare-ipc"
    user = os.geteuid() if security.user is None else security.user
    group = os.getegid() if security.group is None else security.group
    if (user, group) != (os.geteuid(), os.getegid()):
        yield from ("--unshare-user", "--uid", str(user), "--gid", str(group))
    elif os.geteuid() == 0:
        yield from ("--cap-drop", "ALL")
        for name in security.given:
            if name not in _NEVER or security.privileged:
                yield from ("--cap-add", f"CAP_{name}")


def _readonly(task: Task) -> Iterator[str]:
    if task.security.readonly_root:
        for path in ("/",) if task.rootfs else rootfs.FRESH:
            yield from ("--remount-ro", path)


def _mounts(task: Task) -> Iterator[str]:
    for volume in task.mounts:
        source = volume.source if volume.staged else existing(volume.source)
        yield from ("--ro-bind" if volume.readonly else "--bind", source, rootfs.place(volume.target, task.rootfs))
    for mount in task.edits.mounts:
        yield from _mount(mount, task.rootfs)


def _mount(mount: CdiMount, image: str) -> tuple[str, ...]:
    if mount.type == "tmpfs":
        return ("--tmpfs", rootfs.place(mount.containerPath, image))
    if mount.type not in ("", "none", "bind"):
        return ()
    how = "--ro-bind" if "ro" in mount.options else "--bind"
    return (how, existing(mount.hostPath), rootfs.place(mount.containerPath, image))


def _devices(edits: CdiEdits) -> Iterator[str]:
    for node in edits.deviceNodes:
        if os.path.exists(node.source):
            yield from ("--dev-bind", node.source, node.path)
