"""Container Device Interface (CDI): types of specs and the validation of specs.

Drivers write specs and nodes read them; both validate them with these functions. They implement the rules of the
specification, because its JSON schema misses most mistakes. All functions are pure. Reading files is not part of
this module, and the container runtime applies the edits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

VERSIONS = ("0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_KIND_PART = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_DEVICE_TYPES = ("", "b", "c", "u", "p")


class CdiError(ValueError):
    """A spec violates a rule, or a device ID cannot be resolved; the message says which and where."""


class CdiDeviceNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A device file to create in the container."""

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


class CdiMount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A directory or file of the host to mount into the container."""

    hostPath: str
    containerPath: str
    options: tuple[str, ...] = ()
    type: str = ""


class CdiHook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program to run at a stage of the container's life cycle."""

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
    """Intel RDT settings: a class of cache and memory bandwidth."""

    closID: str = ""
    l3CacheSchema: str = ""
    memBwSchema: str = ""
    schemata: tuple[str, ...] = ()
    enableCMT: bool = False
    enableMBM: bool = False
    enableMonitoring: bool = False


class CdiEdits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to a container's configuration."""

    env: tuple[str, ...] = ()
    deviceNodes: tuple[CdiDeviceNode, ...] = ()
    netDevices: tuple[NetDevice, ...] = ()
    hooks: tuple[CdiHook, ...] = ()
    mounts: tuple[CdiMount, ...] = ()
    intelRdt: IntelRdt | None = None
    additionalGids: tuple[int, ...] = ()

    @property
    def empty(self) -> bool:
        return self == CdiEdits()


NO_EDITS = CdiEdits()


class CdiDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    containerEdits: CdiEdits
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class CdiSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of one spec file."""

    cdiVersion: str
    kind: str
    devices: tuple[CdiDevice, ...]
    containerEdits: CdiEdits = NO_EDITS
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


def split_id(qualified: str) -> tuple[str, str, str]:
    """Parse a qualified device name `vendor/class=name`. Returns vendor, class and name.

    Raises CdiError if the text has another form or a part is invalid.
    """
    kind, equals, name = qualified.partition("=")
    vendor, slash, class_ = kind.partition("/")
    if not (equals and slash):
        raise CdiError(f"CDI device {qualified!r}: expected vendor/class=name")
    if problem := kind_problem(kind) or name_problem(name):
        raise CdiError(f"CDI device {qualified!r}: {problem}")
    return vendor, class_, name


def kind_problem(kind: str) -> str:
    """Return an error message if a kind `vendor/class` is invalid, otherwise an empty string."""
    vendor, _, class_ = kind.partition("/")
    for what, part in (("vendor", vendor), ("class", class_)):
        if not _KIND_PART.fullmatch(part):
            return (
                f"kind {kind!r}: {what} {part!r}: expected letters, digits, '_', '-' and '.', "
                "starting with a letter, ending with a letter or digit"
            )
    return ""


def name_problem(name: str) -> str:
    """Return an error message if the name of a CDI device is invalid, otherwise an empty string."""
    if _DEVICE_NAME.fullmatch(name):
        return ""
    return (
        f"device name {name!r}: expected letters, digits, '_', '-', '.' and ':', "
        "starting and ending with a letter or digit"
    )


def problems(spec: CdiSpec) -> Iterator[str]:
    """Yield one message per rule that a spec violates.

    Other rules are not checked if the cdiVersion is unknown.
    """
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


def _edit_problems(edits: CdiEdits) -> Iterator[str]:
    for text in _texts(edits):
        if "\0" in text:
            yield f"{text[:40]!r}: NUL characters are not allowed"
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


def _texts(edits: CdiEdits) -> Iterator[str]:
    """Yield all strings that become paths, arguments or environment variables. Some can be empty."""
    yield from edits.env
    for node in edits.deviceNodes:
        yield from (node.path, node.hostPath)
    for mount in edits.mounts:
        yield from (mount.hostPath, mount.containerPath, mount.type, *mount.options)
    for hook in edits.hooks:
        yield from (hook.path, *hook.args, *hook.env)


def _rare_problems(edits: CdiEdits) -> Iterator[str]:
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


def minimum_version(spec: CdiSpec) -> str:
    """Return the oldest CDI version that supports all features used in a spec."""
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
