"""Container Device Interface: what a device id means for a container, read from the spec files that drivers write.

Checks the rules of the specification itself, since its JSON schema lets most mistakes pass; a bad file is reported and
leaves the others usable. Left out: writing specs, which is the driver's, and applying edits, which is the runtime's.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

log = logging.getLogger(__name__)

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_SUFFIXES = (".json", ".yaml", ".yml")
_KIND_PART = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_MOST_BYTES = 1 << 20  # of a spec file; real ones have a few kilobytes
_MOST_NODES = 1_000_000
_MESSAGE_CHARACTERS = 500
_DEVICE_TYPES = ("", "b", "c", "u", "p")


class CdiError(ValueError):
    """A spec breaks a rule, or an id cannot be resolved; the text says which and where."""


class DeviceNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device file to appear in the container."""

    path: str
    hostPath: str = ""
    type: str = ""
    major: int = 0
    minor: int = 0
    fileMode: int | None = None
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None

    @property
    def source(self) -> str:
        return self.hostPath or self.path


class Mount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A directory or file of the host to appear in the container."""

    hostPath: str
    containerPath: str
    options: tuple[str, ...] = ()
    type: str = ""


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program to run at a point of the container's life."""

    hookName: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


class NetDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network interface of the host to move into the container."""

    hostInterfaceName: str
    name: str


class IntelRdt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class of cache and memory bandwidth."""

    closID: str = ""
    l3CacheSchema: str = ""
    memBwSchema: str = ""
    schemata: tuple[str, ...] = ()
    enableCMT: bool = False
    enableMBM: bool = False
    enableMonitoring: bool = False


class Edits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change about a container."""

    env: tuple[str, ...] = ()
    deviceNodes: tuple[DeviceNode, ...] = ()
    netDevices: tuple[NetDevice, ...] = ()
    hooks: tuple[Hook, ...] = ()
    mounts: tuple[Mount, ...] = ()
    intelRdt: IntelRdt | None = None
    additionalGids: tuple[int, ...] = ()

    @property
    def empty(self) -> bool:
        return self == Edits()


NO_EDITS = Edits()


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    containerEdits: Edits
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One spec file."""

    cdiVersion: str
    kind: str
    devices: tuple[Device, ...]
    containerEdits: Edits = NO_EDITS
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


def parse(text: bytes, name: str) -> Spec:
    """Read a spec and check it; `name` is the file's, for messages and to tell JSON from YAML."""
    try:
        spec = msgspec.convert(_tree(text, name), Spec, strict=True)
    except Exception as error:  # PyYAML raises whatever a bad scalar makes Python raise: KeyError, IndexError …
        raise CdiError(f"{name}: {_described(error)}") from error
    for problem in problems(spec):
        raise CdiError(f"{name}: {problem}")
    return spec


def _tree(text: bytes, name: str) -> Any:
    if name.endswith(".json"):
        return msgspec.json.decode(text)
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)  # the one in C is ten times as fast
    try:
        node = loader.get_single_node()
        _check_size(node)
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(node: Any) -> None:
    """Aliases may make a small text mean a large tree; what would grow beyond a limit is refused before it does."""
    left, waiting = _MOST_NODES, [node]
    while waiting:
        found = waiting.pop()
        left -= 1
        if left < 0:
            raise CdiError(f"more than {_MOST_NODES} values")
        if isinstance(getattr(found, "value", None), list):
            for item in found.value:
                waiting.extend(item if isinstance(item, tuple) else (item,))


def _described(error: Exception) -> str:
    try:
        text = str(error)
    except ValueError:  # of a number with too many digits to be written
        text = ""
    text = text if isinstance(error, (CdiError, msgspec.MsgspecError)) else f"{type(error).__name__} {text}".strip()
    return text if len(text) <= _MESSAGE_CHARACTERS else text[:_MESSAGE_CHARACTERS] + "…"


def split_id(qualified: str) -> tuple[str, str, str]:
    """Vendor, class and name of `vendor/class=name`."""
    kind, equals, name = qualified.partition("=")
    vendor, slash, class_ = kind.partition("/")
    if not (equals and slash):
        raise CdiError(f"CDI device {qualified!r}: expected vendor/class=name")
    if problem := kind_problem(kind) or name_problem(name):
        raise CdiError(f"CDI device {qualified!r}: {problem}")
    return vendor, class_, name


def kind_problem(kind: str) -> str:
    vendor, _, class_ = kind.partition("/")
    for what, part in (("vendor", vendor), ("class", class_)):
        if not _KIND_PART.fullmatch(part):
            return (
                f"kind {kind!r}: {what} {part!r}: expected letters, digits, '_', '-' and '.', "
                "starting with a letter, ending with a letter or digit"
            )
    return ""


def name_problem(name: str) -> str:
    if _DEVICE_NAME.fullmatch(name):
        return ""
    return (
        f"device name {name!r}: expected letters, digits, '_', '-', '.' and ':', "
        "starting and ending with a letter or digit"
    )


def problems(spec: Spec) -> Iterator[str]:
    """Every rule that a spec breaks."""
    if spec.cdiVersion not in VERSIONS:
        yield f"cdiVersion {spec.cdiVersion!r}: expected one of {', '.join(VERSIONS)}"
        return
    needed = minimum_version(spec)
    if VERSIONS.index(needed) > VERSIONS.index(spec.cdiVersion):
        yield f"cdiVersion {spec.cdiVersion!r}: what the spec uses needs at least {needed}"
    if problem := kind_problem(spec.kind):
        yield problem
    if not spec.devices:
        yield "devices: expected at least one"
    yield from (f"containerEdits: {problem}" for problem in _edit_problems(spec.containerEdits))
    seen: set[str] = set()
    for device in spec.devices:
        if problem := name_problem(device.name):
            yield problem
        if device.name in seen:
            yield f"device {device.name}: named twice"
        seen.add(device.name)
        if device.containerEdits.empty:
            yield f"device {device.name}: containerEdits: must not be empty"
        yield from (f"device {device.name}: containerEdits: {text}" for text in _edit_problems(device.containerEdits))


def _edit_problems(edits: Edits) -> Iterator[str]:
    yield from _env_problems(edits.env)
    for node in edits.deviceNodes:
        if not node.path:
            yield "deviceNodes: path: must not be empty"
        if node.type not in _DEVICE_TYPES:
            yield f"deviceNodes {node.path}: type {node.type!r}: expected b, c, u, p or nothing"
        if set(node.permissions) - set("rwm"):
            yield f"deviceNodes {node.path}: permissions {node.permissions!r}: expected a combination of r, w and m"
    for mount in edits.mounts:
        if not mount.hostPath or not mount.containerPath:
            yield "mounts: hostPath and containerPath must not be empty"
    for hook in edits.hooks:
        if hook.hookName not in HOOKS:
            yield f"hooks: hookName {hook.hookName!r}: expected one of {', '.join(HOOKS)}"
        if not hook.path:
            yield f"hooks {hook.hookName}: path: must not be empty"
        yield from (f"hooks {hook.hookName}: {problem}" for problem in _env_problems(hook.env))
    yield from _rare_problems(edits)


def _rare_problems(edits: Edits) -> Iterator[str]:
    for device in edits.netDevices:
        if not device.hostInterfaceName or not device.name:
            yield "netDevices: hostInterfaceName and name must not be empty"
    class_id = edits.intelRdt.closID if edits.intelRdt else ""
    if len(class_id) >= 4096 or class_id in (".", "..") or set(class_id) & set("/\n"):
        yield f"intelRdt: closID {class_id[:40]!r}: expected a file name"
    if any(gid < 0 for gid in edits.additionalGids):
        yield "additionalGids: expected numbers from 0"


def _env_problems(env: Iterable[str]) -> Iterator[str]:
    for entry in env:
        if entry.find("=") <= 0:
            yield f"env {entry!r}: expected NAME=VALUE"


def minimum_version(spec: Spec) -> str:
    """The oldest version that has everything a spec uses."""
    edits = [spec.containerEdits, *(device.containerEdits for device in spec.devices)]
    rdt = [e.intelRdt for e in edits if e.intelRdt]
    if any(e.netDevices for e in edits) or any(r.schemata or r.enableMonitoring for r in rdt):
        return "1.1.0"
    if rdt or any(e.additionalGids for e in edits):
        return "0.7.0"
    if spec.annotations or any(d.annotations for d in spec.devices) or "." in spec.kind.partition("/")[2]:
        return "0.6.0"
    if any(not d.name[:1].isalpha() for d in spec.devices) or any(n.hostPath for e in edits for n in e.deviceNodes):
        return "0.5.0"
    if any(m.type for e in edits for m in e.mounts):
        return "0.4.0"
    return "0.3.0"


# Merging


@dataclass(frozen=True)
class Merged:
    """The edits of several devices as one, and where one device overruled another."""

    edits: Edits
    conflicts: tuple[str, ...] = ()


@dataclass
class _Merge:
    """Edits in the making. What is named twice is taken from the last, at the place of the last."""

    env: dict[str, tuple[str, str]] = field(default_factory=dict)  # name → value, who set it
    nodes: dict[str, tuple[DeviceNode, str]] = field(default_factory=dict)
    mounts: dict[str, tuple[Mount, str]] = field(default_factory=dict)
    net: list[NetDevice] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    rdt: IntelRdt | None = None
    gids: dict[int, None] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    def add(self, edits: Edits, whose: str) -> None:
        for entry in edits.env:
            name, _, value = entry.partition("=")
            self._put(self.env, name, value, whose, "env")
        for node in edits.deviceNodes:
            self._put(self.nodes, node.path, node, whose, "device node")
        for mount in edits.mounts:
            self._put(self.mounts, mount.containerPath, mount, whose, "mount")
        self.net += edits.netDevices
        self.hooks += edits.hooks
        self.rdt = edits.intelRdt or self.rdt
        self.gids |= dict.fromkeys(edits.additionalGids)

    def _put(self, table: dict[str, Any], key: str, value: Any, whose: str, what: str) -> None:
        before = table.pop(key, None)
        if before is not None and before[0] != value:
            self.conflicts.append(f"{what} {key} of {before[1]} is overruled by {whose}")
        table[key] = (value, whose)

    def done(self) -> Merged:
        edits = Edits(
            env=tuple(f"{name}={value}" for name, (value, _) in self.env.items()),
            deviceNodes=tuple(node for node, _ in self.nodes.values()),
            netDevices=tuple(self.net),
            hooks=tuple(self.hooks),
            mounts=tuple(mount for mount, _ in self.mounts.values()),
            intelRdt=self.rdt,
            additionalGids=tuple(self.gids),
        )
        return Merged(edits, tuple(self.conflicts))


@dataclass(frozen=True)
class _Entry:
    device: Device
    spec: Spec
    file: Path


class Specs:
    """All specs of some directories. A later directory overrules an earlier one; files are read again when they change.

    Two files of one directory that define the same device make it unusable, and the error names both.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self.directories = tuple(directories)
        self.errors: dict[Path, str] = {}  # files that cannot be used, as of the last look
        self._told: dict[Path, str] = {}  # the errors before, which stand in the log already
        self._read: dict[Path, tuple[tuple[int, int, int], Spec | None]] = {}

    def edits(self, ids: Sequence[str]) -> Merged:
        """The edits of devices in the order of their ids, those of a spec as a whole before its first device."""
        found, ambiguous = self._devices()
        merge, seen = _Merge(), set[Path]()
        for qualified in dict.fromkeys(ids):
            split_id(qualified)
            entry = found.get(qualified)
            if qualified in ambiguous:
                files = ", ".join(map(str, ambiguous[qualified]))
                raise CdiError(f"CDI device {qualified} is defined more than once: {files}")
            if entry is None:
                raise CdiError(self._unknown(qualified))
            if entry.file not in seen:
                seen.add(entry.file)
                merge.add(entry.spec.containerEdits, f"{entry.spec.kind} ({entry.file.name})")
            merge.add(entry.device.containerEdits, qualified)
        return merge.done()

    def _unknown(self, qualified: str) -> str:
        text = f"CDI device {qualified} is unknown: no spec in {', '.join(map(str, self.directories))} defines it"
        return text + "".join(f"; bad file {error}" for error in self.errors.values())

    def _devices(self) -> tuple[dict[str, _Entry], dict[str, list[Path]]]:
        found: dict[str, _Entry] = {}
        ambiguous: dict[str, list[Path]] = {}
        for file, spec in self._specs():
            for device in spec.devices:
                qualified = f"{spec.kind}={device.name}"
                other = found.get(qualified)
                if other is not None and other.file.parent == file.parent:
                    ambiguous.setdefault(qualified, [other.file]).append(file)
                else:
                    ambiguous.pop(qualified, None)
                    found[qualified] = _Entry(device, spec, file)
        return found, ambiguous

    def _specs(self) -> Iterator[tuple[Path, Spec]]:
        known, self._read, self._told, self.errors = self._read, {}, self.errors, dict[Path, str]()
        for directory in self.directories:
            for entry in _files(directory):
                file = Path(entry.path)
                spec = self._load(file, entry, known)
                if spec is not None:
                    yield file, spec

    def _load(
        self, file: Path, entry: os.DirEntry[str], known: dict[Path, tuple[tuple[int, int, int], Spec | None]]
    ) -> Spec | None:
        try:
            status = entry.stat()
            mark = (status.st_mtime_ns, status.st_size, status.st_ino)
            before = known.get(file)
            if before is not None and before[0] == mark:
                self._read[file] = before
                if before[1] is None:  # a bad file is not parsed again before it changes
                    self.errors[file] = self._told[file]
                return before[1]
            spec = self._parsed(file, mark)
        except FileNotFoundError:
            return None  # removed since the directory was read
        except (OSError, CdiError) as error:
            self.errors[file] = str(error)
            if self._told.get(file) != str(error):
                log.warning("CDI spec left out: %s", error)
            return None
        self._read[file] = (mark, spec)
        return spec

    def _parsed(self, file: Path, mark: tuple[int, int, int]) -> Spec:
        data = _content(file)
        try:
            return parse(data, str(file))
        except CdiError:
            self._read[file] = (mark, None)
            raise


def _content(file: Path) -> bytes:
    """Read a regular file; anything else could keep the agent waiting for ever."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CdiError(f"{file}: no regular file")
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise CdiError(f"{file}: more than {_MOST_BYTES} bytes")
    return data


def _files(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted((e for e in entries if e.name.endswith(_SUFFIXES) and e.name[0] != "."), key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
