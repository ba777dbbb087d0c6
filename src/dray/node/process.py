"""Runtime `process`: a container is a plain process of this machine, with the environment variables of its devices.

The default without root and without installed runtimes. Containers are not isolated: they use the host's file system,
network and devices. A device node is therefore already in place, and a mount at another path cannot be made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dray.api.cdi import CdiEdits
from dray.node.runtime import BindMount, ContainerStartError, Task
from dray.node.supervised import Launch

_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProcessWrapper:
    """Wrapper that starts a container's command as it is, with only its environment and a working directory."""

    name = "process"
    mounts_volumes = False

    def unavailable(self) -> str:
        return ""

    def cannot(self, task: Task) -> list[str]:
        return [*_host_only(task.edits), *rare(task.edits)]

    def refuses(self, task: Task) -> list[str]:
        elsewhere = [m.target for m in task.mounts if not _same(m.source, m.target) and not is_token(m.target)]
        security, root = task.security, os.geteuid() == 0
        asked = {
            # Without the mount the container would use the host's file or directory at that path.
            **{f"volume at {target}": True for target in elsewhere},
            "readOnlyRootFilesystem": security.readonly_root,
            "privileged, since the agent does not run as root": security.privileged and not root,
            f"runAsUser {security.user}": not root and security.user not in (None, os.geteuid()),
            f"runAsGroup {security.group}": not root and security.group not in (None, os.getegid()),
            f"groups {', '.join(map(str, security.groups))}": not root
            and bool(set(security.groups) - set(os.getgroups())),
            security.not_given: bool(security.not_given),
            f"dropped capabilities {', '.join(security.drop)}": root and bool(security.drop) and not security.user,
        }
        return [what for what, holds in asked.items() if holds]

    def launch(self, task: Task, directory: Path) -> Launch:
        work = directory.parents[2] / "work"
        work.mkdir(mode=0o700, exist_ok=True)
        who = identity(task)
        if "user" in who:
            os.chown(work, who["user"], who["group"])
        return Launch([*task.argv], environment(task, str(work)), task.directory or str(work), identity=who)

    def clean(self, directory: Path) -> None:
        pass


def identity(task: Task) -> dict[str, Any]:
    """Return user and groups of a process, if the agent runs as root, and whether it may gain privileges.

    The keys are `no_new_privileges`, and `user`, `group` and `groups` if the user is to be changed.
    """
    security = task.security
    who: dict[str, Any] = {"no_new_privileges": security.no_new_privileges}
    if os.geteuid() == 0 and (security.user is not None or security.group is not None or security.groups):
        user, group = security.user or 0, security.group or 0
        who |= {"user": user, "group": group, "groups": [*security.groups]}
    return who


def network_files(task: Task) -> list[BindMount]:
    """Return the mounts of resolv.conf and hosts for a container with an image, because it shares the host's network.

    Returns nothing without an image. Files that do not exist or that a volume replaces are left out.
    """
    taken = {mount.target for mount in task.mounts}
    wanted = [path for path in _NETWORK_FILES if path not in taken and os.path.exists(path)] if task.rootfs else []
    return [BindMount(os.path.realpath(path), path, readonly=True) for path in wanted]


def existing(path: str) -> str:
    """Return `path` if the path exists on the host. Raises `ContainerStartError` otherwise."""
    if not os.path.exists(path):
        raise ContainerStartError(f"cannot mount {path}: it does not exist on the host")
    return path


def is_token(target: str) -> bool:
    """Whether a mount is the service account token, which every pod has by default."""
    return target == "/var/run/secrets/kubernetes.io/serviceaccount"


def environment(task: Task, home: str) -> dict[str, str]:
    """Return a container's environment: defaults, the pod's variables, those of its devices, and HOME last.

    A HOME that is set is kept. HOME comes last because programs that read the output of `env` expect a whole line for
    every variable of a device.
    """
    env = {"PATH": DEFAULT_PATH, "HOSTNAME": task.hostname, **task.env}
    for entry in task.edits.env:
        name, _, value = entry.partition("=")
        env[name] = value
    env.setdefault("HOME", home)
    return env


def rare(edits: CdiEdits) -> Iterator[str]:
    """Yield texts that name the CDI edits which only an OCI runtime can apply."""
    for device in edits.netDevices:
        yield f"network device {device.hostInterfaceName}"
    if edits.intelRdt is not None:
        yield "intelRdt"
    if edits.additionalGids:
        yield f"additional groups {', '.join(map(str, edits.additionalGids))}"
    for hook in edits.hooks:
        yield f"{hook.hookName} hook {hook.path}"


def _host_only(edits: CdiEdits) -> Iterator[str]:
    for node in edits.deviceNodes:
        if not _same(node.source, node.path):
            yield f"device node {node.path}"
    for mount in edits.mounts:
        if not _same(mount.hostPath, mount.containerPath):
            yield f"mount of {mount.hostPath} at {mount.containerPath}"


def _same(source: str, target: str) -> bool:
    """Whether a path exists on the host and is mounted at its own place, so that nothing needs to be done."""
    return os.path.normpath(source) == os.path.normpath(target) and os.path.exists(source)
