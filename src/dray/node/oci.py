"""Runtime `oci`: a runc bundle for every container, with support for almost everything in CDI.

Needs root. Without an image, the root file system is the host's, read-only; the network is always the host's. The
container's state is kept in the attempt's directory and removed with it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dray.api.cdi import HOOKS, CdiDeviceNode, CdiEdits, CdiHook, CdiMount
from dray.files import read_text
from dray.node import rootfs
from dray.node.builders import why_not_started
from dray.node.process import environment, existing, network_files
from dray.node.runtime import ContainerKey, ContainerStartError, Task
from dray.node.shim import write_json
from dray.node.staging import staged
from dray.node.supervised import Launch

_TRIAL_SECONDS = 20.0
_MASKED = (  # paths that container runtimes hide, as they reveal the host, other containers and their timing
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
_READONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_DEVICE_KINDS = ((stat.S_ISCHR, "c"), (stat.S_ISBLK, "b"), (stat.S_ISFIFO, "p"))
_MODE_BITS = 0o7777
_PROPAGATION = {"HostToContainer": "rslave", "Bidirectional": "rshared"}


class OciWrapper:
    """Writes a runc bundle for a container and returns the runc command that runs it."""

    name = "oci"
    mounts_volumes = True

    def unavailable(self) -> str:
        if shutil.which("runc") is None:
            return "runc is not installed"
        if os.geteuid() != 0:
            return "runc needs root"
        task = Task(ContainerKey("trial", "trial", os.getpid()), ("true",))
        with tempfile.TemporaryDirectory(prefix="dray-oci-") as directory:
            launch = self.launch(task, Path(directory))
            try:
                done = subprocess.run(launch.argv, capture_output=True, timeout=_TRIAL_SECONDS, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"runc does not work here: {error}"
            finally:
                self.clean(Path(directory))
        if done.returncode == 0:
            return ""
        return f"runc does not work here: {why_not_started(done.stderr.decode().strip(), 'true')}"

    def cannot(self, task: Task) -> list[str]:
        # runc before 1.4 does not know network devices and silently ignores them.
        return [f"network device {device.hostInterfaceName}" for device in task.edits.netDevices]

    def refuses(self, task: Task) -> list[str]:
        lacking = [task.security.not_given] if task.security.not_given else []
        return lacking + [
            f"mountPropagation Bidirectional of a subPath at {mount.target}"
            for mount in task.mounts
            if mount.propagation == "Bidirectional" and mount.subpath
        ]

    def launch(self, task: Task, directory: Path) -> Launch:
        bundle = directory / "bundle"
        root = bundle / "rootfs"
        root.mkdir(parents=True)
        prefix, mounts = staged([*task.mounts, *network_files(task)], task.rootfs, directory)
        task = replace(task, mounts=tuple(mounts))
        config = _config(task)
        for step in rootfs.plan(_targets(task)) if not task.rootfs else ():
            _take(step, root, config["mounts"], task.security.readonly_root)
        config["mounts"] += [*_own_mounts(task.security.privileged), *_volume_mounts(task)]
        config["mounts"] += [_cdi_mount(mount, task.rootfs) for mount in task.edits.mounts]
        if task.rootfs:
            config["root"] = {"path": str(directory / "rootfs"), "readonly": task.security.readonly_root}
        write_json(str(bundle / "config.json"), config)
        name = _name(directory)
        (directory / "container").write_text(name)
        argv = [
            *prefix,
            *self._runc(directory),
            "--log-format",
            "json",  # `builders` reads this format
            "run",
            "--bundle",
            str(bundle),
            "--pid-file",
            str(directory / "pid"),
            name,
        ]
        return Launch(
            argv,
            {"PATH": os.environ.get("PATH", "")},
            "/",
            pid_file=str(directory / "pid"),
            inside=task.directory or "/",
            inside_env=environment(task, "/root"),
        )

    def clean(self, directory: Path) -> None:
        name = directory / "container"
        if name.exists():
            delete = [*self._runc(directory), "delete", "--force", read_text(name)]
            subprocess.run(delete, capture_output=True, timeout=_TRIAL_SECONDS, check=False)

    def _runc(self, directory: Path) -> list[str]:
        return [shutil.which("runc") or "runc", "--root", str(directory / "state")]


def _name(directory: Path) -> str:
    """Return a container name that is unique on the machine, for any number of agents and any pod names.

    `directory` is that of the container's attempt, from whose path the name is made.
    """
    return "dray-" + hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:24]


def _targets(task: Task) -> list[str]:
    return [mount.target for mount in task.mounts] + [mount.containerPath for mount in task.edits.mounts]


def _config(task: Task) -> dict[str, Any]:
    devices = [_device(node) for node in task.edits.deviceNodes]
    security = task.security
    shared = {kind for kind, holds in (("pid", security.host_pid), ("ipc", security.host_ipc)) if holds}
    allowed = [{"allow": security.privileged, "access": "rwm"}, *_allowed(task.edits, devices)]
    linux: dict[str, Any] = {
        "namespaces": [_namespace(kind, task) for kind in ("pid", "ipc", "uts", "mount") if kind not in shared],
        "resources": {"devices": allowed},
        "devices": devices,
        "maskedPaths": () if security.privileged else _MASKED,
        "readonlyPaths": () if security.privileged else _READONLY,
    }
    if any(mount.propagation == "Bidirectional" for mount in task.mounts):
        linux["rootfsPropagation"] = "rshared"
    elif any(mount.propagation == "HostToContainer" for mount in task.mounts):
        linux["rootfsPropagation"] = "rslave"
    if task.edits.intelRdt is not None:
        linux["intelRdt"] = _rdt(task.edits)
    return {
        "ociVersion": "1.0.2",
        "process": _process(task),
        "root": {"path": "rootfs", "readonly": True},
        "hostname": task.hostname,
        "mounts": [],
        "hooks": {
            kind: hooks for kind in HOOKS if (hooks := [_hook(h) for h in task.edits.hooks if h.hookName == kind])
        },
        "linux": linux,
    }


def _namespace(kind: str, task: Task) -> dict[str, str]:
    """Return a new namespace of this kind, or the PID namespace of the container to debug."""
    if kind == "pid" and task.target_pid:
        return {"type": kind, "path": f"/proc/{task.target_pid}/ns/{kind}"}
    return {"type": kind}


def _process(task: Task) -> dict[str, Any]:
    security = task.security
    user: dict[str, Any] = {"uid": security.user or 0, "gid": security.group or 0}
    groups = [gid for gid in (*security.groups, *task.edits.additionalGids) if gid]
    if groups:
        user["additionalGids"] = [*dict.fromkeys(groups)]
    capabilities = [f"CAP_{name}" for name in security.given]
    return {
        "terminal": task.tty,
        "user": user,
        "args": task.argv,
        "env": [f"{name}={value}" for name, value in environment(task, "/root").items()],
        "cwd": task.directory or "/",
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
        "noNewPrivileges": security.no_new_privileges,
    }


def _rdt(edits: CdiEdits) -> dict[str, Any]:
    assert edits.intelRdt is not None
    names = ("closID", "l3CacheSchema", "memBwSchema", "enableCMT", "enableMBM")
    return {name: value for name in names if (value := getattr(edits.intelRdt, name))}


def _hook(hook: CdiHook) -> dict[str, Any]:
    tree: dict[str, Any] = {"path": hook.path, "args": hook.args, "env": hook.env}
    return tree if hook.timeout is None else tree | {"timeout": hook.timeout}


def _device(node: CdiDeviceNode) -> dict[str, Any]:
    """Return a device in runc's format. Raises ContainerStartError if a device node that is needed cannot be used.

    If the CDI spec lacks the type or the major number, the host's device node gives both numbers, and the type and
    mode if they are missing. A FIFO needs no number.
    """
    kind, major, minor, mode = node.type, node.major, node.minor, node.fileMode
    if not kind or (not major and kind != "p"):
        try:
            host = os.stat(node.source)
        except OSError as error:
            raise ContainerStartError(f"device node {node.source}: {error.strerror}") from error
        kind = kind or next((letter for test, letter in _DEVICE_KINDS if test(host.st_mode)), "")
        if not kind:
            raise ContainerStartError(f"{node.source} is not a device node")
        major, minor = os.major(host.st_rdev), os.minor(host.st_rdev)
        mode = mode if mode is not None else host.st_mode & _MODE_BITS
    device: dict[str, Any] = {"path": node.path, "type": kind, "major": major, "minor": minor}
    named = (("fileMode", mode), ("uid", node.uid), ("gid", node.gid))
    return device | {name: value for name, value in named if value is not None}


def _allowed(edits: CdiEdits, devices: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node, device in zip(edits.deviceNodes, devices, strict=True):
        if device["type"] in ("b", "c"):
            access = node.permissions or "rwm"
            numbers = {"major": device["major"], "minor": device["minor"]}
            yield {"allow": True, "type": device["type"], "access": access, **numbers}


def _take(step: rootfs.RootfsStep, root: Path, mounts: list[dict[str, Any]], readonly: bool) -> None:
    """Add one step of the root file system to the bundle.

    Symlinks in the topmost directory are created in the bundle. Deeper ones cannot be created there, so their targets
    are mounted instead.
    """
    if step.kind == rootfs.TMPFS and step.target in rootfs.FRESH and readonly:
        (root / step.target[1:]).mkdir()
    elif step.kind == rootfs.TMPFS:
        mounts.append({"destination": step.target, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]})
    elif step.kind == rootfs.SYMLINK and step.target.count("/") == 1:
        (root / step.target[1:]).symlink_to(step.source)
    elif os.path.exists(step.target):
        source = os.path.realpath(step.target)
        mounts.append(_bind(source, step.target, "ro"))


def _bind(source: str, target: str, *options: str) -> dict[str, Any]:
    return {"destination": target, "type": "bind", "source": source, "options": ["rbind", *options]}


def _own_mounts(privileged: bool) -> list[dict[str, Any]]:
    quiet = ["nosuid", "noexec", "nodev"]
    if privileged:
        return [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            _bind("/dev", "/dev", "rw"),
            _bind("/sys", "/sys", "rw"),
        ]
    return [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        },
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": [*quiet, "mode=1777"]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*quiet, "ro"]},
    ]


def _volume_mounts(task: Task) -> Iterator[dict[str, Any]]:
    for mount in task.mounts:
        source = mount.source if mount.staged else existing(mount.source)
        propagation = _PROPAGATION.get(mount.propagation, "rprivate")
        yield _bind(source, rootfs.place(mount.target, task.rootfs), "ro" if mount.readonly else "rw", propagation)


def _cdi_mount(mount: CdiMount, image: str) -> dict[str, Any]:
    kind = mount.type or "bind"
    source = existing(mount.hostPath) if kind in ("bind", "none") else mount.hostPath
    options = [*mount.options] or ["rbind"]
    if kind in ("bind", "none") and not {"bind", "rbind"} & set(options):
        options.append("rbind")
    return {"destination": rootfs.place(mount.containerPath, image), "type": kind, "source": source, "options": options}
