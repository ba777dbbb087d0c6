"""Runtime `process`: a container is a plain process of this machine, with the environment of its devices.

The default without root and without anything installed. There is no isolation: the file system, the network and the
devices are the host's, so a device node is there already, and a mount that would put something elsewhere cannot be made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dray.node.cdi import Edits
from dray.node.runtime import Task
from dray.node.supervised import Launch

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProcessWrapper:
    """Adds nothing but the environment and a working directory."""

    name = "process"
    mounts_volumes = False

    def unavailable(self) -> str:
        return ""

    def cannot(self, task: Task) -> list[str]:
        volumes = [
            f"volume at {mount.target}"
            for mount in task.mounts
            if not _same(mount.source, mount.target) and not is_token(mount.target)
        ]
        return [*_host_only(task.edits), *rare(task.edits), *hooks(task.edits), *volumes]

    def launch(self, task: Task, directory: Path) -> Launch:
        work = directory.parents[2] / "work"
        work.mkdir(exist_ok=True)
        return Launch([*task.argv], environment(task, str(work)), task.directory or str(work))

    def clean(self, directory: Path) -> None:
        pass


def is_token(target: str) -> bool:
    """Whether a mount is the service account's, which every pod has whether it wants it or not."""
    return target == "/var/run/secrets/kubernetes.io/serviceaccount"


def environment(task: Task, home: str) -> dict[str, str]:
    """What a container finds set: a default, what the pod says, and on top what its devices say."""
    env = {"PATH": DEFAULT_PATH, "HOME": home, "HOSTNAME": task.hostname, **task.env}
    for entry in task.edits.env:
        name, _, value = entry.partition("=")
        env[name] = value
    return env


def rare(edits: Edits) -> Iterator[str]:
    """Edits that only an OCI runtime can make."""
    for device in edits.netDevices:
        yield f"network device {device.hostInterfaceName}"
    if edits.intelRdt is not None:
        yield "intelRdt"
    if edits.additionalGids:
        yield f"additional groups {', '.join(map(str, edits.additionalGids))}"


def hooks(edits: Edits) -> Iterator[str]:
    for hook in edits.hooks:
        yield f"{hook.hookName} hook {hook.path}"


def _host_only(edits: Edits) -> Iterator[str]:
    for node in edits.deviceNodes:
        if not _same(node.source, node.path):
            yield f"device node {node.path}"
    for mount in edits.mounts:
        if not _same(mount.hostPath, mount.containerPath):
            yield f"mount of {mount.hostPath} at {mount.containerPath}"


def _same(source: str, target: str) -> bool:
    """Whether something is in its place already."""
    return os.path.normpath(source) == os.path.normpath(target) and os.path.exists(source)
