"""Writes CDI specs, which tell a container runtime how to change a container that uses a device.

Each claim has one file with one CDI device for each prepared device; files are written and removed as a whole. The
spec's version is the lowest that has all features that the spec uses, so that older runtimes can read it. Left out:
the rules of specs (`dray.api.cdi`), and reading specs and merging edits, which runtimes do.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api.cdi import VERSIONS, CdiError, CdiSpec, minimum_version, problems
from dray.api.wire import Tree

_CLASS_OF_OURS = "claim"


@dataclass(frozen=True)
class Mount:
    """A file or directory of the node that is mounted into containers.

    `options` and `type` are those of mount, such as "ro" and "tmpfs".
    """

    host_path: str
    container_path: str
    options: Sequence[str] = ("ro", "nosuid", "nodev", "bind")
    type: str = ""

    def tree(self) -> Tree:
        tree = {"hostPath": self.host_path, "containerPath": self.container_path, "options": [*self.options]}
        return {**tree, "type": self.type} if self.type else tree


@dataclass(frozen=True)
class DeviceNode:
    """A device file that containers get."""

    path: str
    host_path: str = ""
    permissions: str = ""  # a combination of "r", "w" and "m"

    def tree(self) -> Tree:
        fields = {"path": self.path, "hostPath": self.host_path, "permissions": self.permissions}
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True)
class Hook:
    """A program that runs on the node while a container is created."""

    name: str  # one of dray.api.cdi.HOOKS
    path: str
    args: Sequence[str] = ()
    env: Sequence[str] = ()

    def tree(self) -> Tree:
        lists = {key: [*value] for key, value in (("args", self.args), ("env", self.env)) if value}
        return {"hookName": self.name, "path": self.path, **lists}


@dataclass(frozen=True)
class Edits:
    """The changes to a container that uses a device: variables, device files, mounts, hooks and groups."""

    env: Mapping[str, str] = field(default_factory=dict)
    device_nodes: Sequence[DeviceNode] = ()
    mounts: Sequence[Mount] = ()
    hooks: Sequence[Hook] = ()
    additional_gids: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Raise `CdiError` for an invalid variable, so that the author sees the error before a container starts."""
        for name, value in self.env.items():
            if not isinstance(name, str) or not name or "=" in name or "\0" in name:
                raise CdiError(f"env: {name!r} is not the name of a variable: a non-empty text without '='")
            if not isinstance(value, str):
                raise CdiError(f"env: {name}: the value is {value!r}, expected a text")

    def __bool__(self) -> bool:
        return bool(self.env or self.device_nodes or self.mounts or self.hooks or self.additional_gids)

    def tree(self) -> Tree:
        lists: dict[str, list[Any]] = {
            "env": [f"{key}={value}" for key, value in self.env.items()],
            "deviceNodes": [node.tree() for node in self.device_nodes],
            "mounts": [mount.tree() for mount in self.mounts],
            "hooks": [hook.tree() for hook in self.hooks],
            "additionalGids": [*self.additional_gids],
        }
        return {key: value for key, value in lists.items() if value}


class CdiDirectory:
    """The CDI specs of one driver in a directory that container runtimes watch."""

    def __init__(self, directory: Path, driver: str) -> None:
        self._directory = directory
        # A CDI vendor must begin with a letter, which a driver's name need not.
        self.kind = f"k8s.{driver}/{_CLASS_OF_OURS}"
        self._prefix = f"k8s.{driver}-{_CLASS_OF_OURS}_"

    def write(self, uid: str, devices: Mapping[str, Edits]) -> dict[str, str]:
        """Write the CDI spec of a claim. Returns the qualified CDI id of each device with edits, by device name.

        Without any edits the claim's spec is removed, and the result is empty. `uid` is the claim's.
        """
        named = {name: edits for name, edits in devices.items() if edits}
        if not named:
            self.remove(uid)
            return {}
        spec = spec_of(self.kind, {f"{uid}-{name}": edits for name, edits in named.items()})
        self._directory.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path(uid), spec)
        return {name: f"{self.kind}={uid}-{name}" for name in named}

    def remove(self, uid: str) -> None:
        self._path(uid).unlink(missing_ok=True)

    def exists(self, uid: str) -> bool:
        return self._path(uid).exists()

    def claims(self) -> list[str]:
        """Return the uids of the claims that have a spec in this directory."""
        names = self._directory.glob(f"{self._prefix}*.json") if self._directory.is_dir() else ()
        return [path.name.removeprefix(self._prefix).removesuffix(".json") for path in names]

    def _path(self, uid: str) -> Path:
        return self._directory / f"{self._prefix}{uid}.json"


def spec_of(kind: str, devices: Mapping[str, Edits]) -> bytes:
    """Return the CDI spec of these devices as JSON. Raises `CdiError` if a runtime would refuse the spec.

    `kind` is VENDOR/CLASS. `devices` are by name.
    """
    entries = [{"name": name, "containerEdits": edits.tree()} for name, edits in devices.items()]
    return msgspec.json.format(msgspec.json.encode(versioned({"kind": kind, "devices": entries})), indent=2)


def versioned(tree: Tree) -> Tree:
    """Return the spec with the lowest possible version. Raises `CdiError` if a runtime would refuse the spec.

    A version in `tree` is kept.
    """
    try:
        spec = msgspec.convert({"cdiVersion": VERSIONS[-1], **tree}, CdiSpec)
    except msgspec.ValidationError as error:
        raise CdiError(str(error)) from error
    version = minimum_version(spec)
    for problem in problems(replace(spec, cdiVersion=version)):
        raise CdiError(problem)
    return {"cdiVersion": version, **tree}


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file, so that readers see the old or the new content, even if the process is killed.

    Does not force data to disk: after a power failure claims are prepared again, and preparing must be quick.
    """
    # The leading dot and the suffix hide half-written files from readers of the directory.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o644)
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
