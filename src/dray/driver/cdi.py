"""Writes CDI specs: what a container runtime changes in a container that uses a device.

One file a claim, with one CDI device for each prepared device; files appear and vanish as a whole. The version is the
lowest that knows what the spec uses, so that older runtimes read it. `check` holds the rules of names and edits, which
the official JSON schema does not. Left out: reading all specs of a node and merging edits, which runtimes do.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dray.api.wire import Tree

HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_VENDOR = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_CLASS = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_CLASS_OF_OURS = "claim"


class CdiError(ValueError):
    """A spec that runtimes would refuse; the text says where."""


@dataclass(frozen=True)
class Mount:
    host_path: str
    container_path: str
    options: Sequence[str] = ("ro", "nosuid", "nodev", "bind")
    type: str = ""

    def tree(self) -> Tree:
        tree = {"hostPath": self.host_path, "containerPath": self.container_path, "options": [*self.options]}
        return {**tree, "type": self.type} if self.type else tree


@dataclass(frozen=True)
class DeviceNode:
    path: str
    host_path: str = ""
    permissions: str = ""  # some of "rwm"

    def tree(self) -> Tree:
        fields = {"path": self.path, "hostPath": self.host_path, "permissions": self.permissions}
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True)
class Hook:
    name: str  # one of HOOKS
    path: str
    args: Sequence[str] = ()
    env: Sequence[str] = ()

    def tree(self) -> Tree:
        lists = {key: [*value] for key, value in (("args", self.args), ("env", self.env)) if value}
        return {"hookName": self.name, "path": self.path, **lists}


@dataclass(frozen=True)
class Edits:
    """What a container gets together with a device."""

    env: Mapping[str, str] = field(default_factory=dict)
    device_nodes: Sequence[DeviceNode] = ()
    mounts: Sequence[Mount] = ()
    hooks: Sequence[Hook] = ()
    additional_gids: Sequence[int] = ()

    def __post_init__(self) -> None:
        """An author learns of a wrong variable where it is written, not when a container starts."""
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
    """The specs of one driver in a directory that runtimes watch."""

    def __init__(self, directory: Path, driver: str) -> None:
        self._directory = directory
        # A vendor begins with a letter, which the name of a driver need not.
        self.kind = f"k8s.{driver}/{_CLASS_OF_OURS}"
        self._prefix = f"k8s.{driver}-{_CLASS_OF_OURS}_"

    def write(self, uid: str, devices: Mapping[str, Edits]) -> dict[str, str]:
        """Write the spec of a claim; the fully qualified id of each device that has edits, by its name."""
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
        """The uids of the claims that have a spec here."""
        names = self._directory.glob(f"{self._prefix}*.json") if self._directory.is_dir() else ()
        return [path.name.removeprefix(self._prefix).removesuffix(".json") for path in names]

    def _path(self, uid: str) -> Path:
        return self._directory / f"{self._prefix}{uid}.json"


def spec_of(kind: str, devices: Mapping[str, Edits]) -> bytes:
    """The spec of devices by name; raises CdiError when a runtime would refuse it."""
    entries = [{"name": name, "containerEdits": edits.tree()} for name, edits in devices.items()]
    spec: Tree = {"kind": kind, "devices": entries}
    spec = {"cdiVersion": minimum_version(spec), **spec}
    check(spec)
    return msgspec.json.format(msgspec.json.encode(spec), indent=2)


def write_atomically(path: Path, data: bytes) -> None:
    """Readers see the old file or the new one, whenever the process is killed.

    Nothing is forced to the disk: after a power failure claims are prepared anew, and preparing must be quick.
    """
    # A leading dot and another suffix keep half-written files from those who read all specs of the directory.
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o644)
            file.write(data)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# Rules


def minimum_version(spec: Tree) -> str:
    """The first version of the specification that has everything this spec uses."""
    edits = [*_all_edits(spec)]
    class_ = str(spec.get("kind", "")).partition("/")[2]
    if any(edit.get("netDevices") for edit in edits):
        return "1.1.0"
    if any(edit.get("additionalGids") or edit.get("intelRdt") for edit in edits):
        return "0.7.0"
    if "annotations" in spec or any("annotations" in one for one in spec["devices"]) or "." in class_:
        return "0.6.0"
    if any(not one["name"][:1].isalpha() for one in spec["devices"]) or any(
        "hostPath" in node for edit in edits for node in edit.get("deviceNodes", ())
    ):
        return "0.5.0"
    if any("type" in mount for edit in edits for mount in edit.get("mounts", ())):
        return "0.4.0"
    return "0.3.0"


def check(spec: Tree) -> None:
    """Raise CdiError when a runtime would refuse this spec."""
    problem = next(_problems(spec), None)
    if problem:
        raise CdiError(problem)


def _problems(spec: Tree) -> Iterator[str]:
    kind = spec.get("kind", "")
    vendor, slash, class_ = str(kind).partition("/")
    if not slash or not _VENDOR.fullmatch(vendor) or not _CLASS.fullmatch(class_):
        yield f"kind: {kind!r} is not of the form vendor/class"
    devices = spec.get("devices") or []
    if not devices:
        yield "devices: there must be at least one"
    names: set[str] = set()
    for index, one in enumerate(devices):
        name = one.get("name", "")
        if not _NAME.fullmatch(name):
            yield f"devices[{index}].name: {name!r} is not a CDI device name"
        if name in names:
            yield f"devices[{index}].name: {name!r} is there twice"
        names.add(name)
        if not one.get("containerEdits"):
            yield f"devices[{index}].containerEdits: must not be empty"
    for edits in _all_edits(spec):
        yield from _edit_problems(edits)


def _edit_problems(edits: Tree) -> Iterator[str]:
    yield from _env_problems(edits.get("env", ()))
    for node in edits.get("deviceNodes", ()):
        if not node.get("path"):
            yield "deviceNodes: path is required"
        if set(node.get("permissions", "")) - set("rwm"):
            yield f"deviceNodes: permissions {node['permissions']!r} are not some of 'rwm'"
    for mount in edits.get("mounts", ()):
        if not mount.get("hostPath") or not mount.get("containerPath"):
            yield "mounts: hostPath and containerPath are required"
    for hook in edits.get("hooks", ()):
        if hook.get("hookName") not in HOOKS:
            yield f"hooks: {hook.get('hookName')!r} is not one of {', '.join(HOOKS)}"
        if not hook.get("path"):
            yield "hooks: path is required"
        yield from _env_problems(hook.get("env", ()))


def _env_problems(entries: Iterable[str]) -> Iterator[str]:
    for text in entries:
        if "=" not in text or text.startswith("="):
            yield f"env: {text!r} is not of the form NAME=value"


def _all_edits(spec: Tree) -> Iterator[Tree]:
    if spec.get("containerEdits"):
        yield spec["containerEdits"]
    for one in spec.get("devices") or ():
        yield one.get("containerEdits") or {}
