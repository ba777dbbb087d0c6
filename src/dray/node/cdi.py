"""Container edits for CDI device ids, read from the spec files that drivers write.

A bad file is reported and does not affect the others. Left out: the rules for specs (`dray.api.cdi`), writing specs
(the driver's part), and applying edits (the runtime's part).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from dray.api.cdi import (
    CdiDevice,
    CdiDeviceNode,
    CdiEdits,
    CdiError,
    CdiHook,
    CdiMount,
    CdiSpec,
    IntelRdt,
    NetDevice,
    problems,
    split_id,
)
from dray.files import read_regular

log = logging.getLogger(__name__)

_SUFFIXES = (".json", ".yaml", ".yml")
_MOST_BYTES = 1 << 20  # size limit of a spec file; real ones have a few kilobytes
_MOST_NODES = 1_000_000
_MESSAGE_CHARACTERS = 500


def parse(text: bytes, name: str) -> CdiSpec:
    """Parse and check a CDI spec. Raises `CdiError` if the spec is invalid.

    `name` is the file's name. Messages contain the name, and its ending decides between JSON and YAML.
    """
    try:
        spec = msgspec.convert(_tree(text, name), CdiSpec, strict=True)
    except Exception as error:  # PyYAML raises any exception that a bad scalar causes: KeyError, IndexError …
        raise CdiError(f"{name}: {_described(error)}") from error
    for problem in problems(spec):
        raise CdiError(f"{name}: {problem}")
    return spec


def _tree(text: bytes, name: str) -> Any:
    """Parse a JSON or YAML text. Returns plain dicts, lists and values.

    `name` is the name of the file: JSON if it ends in `.json`, otherwise YAML. Returns None for an empty YAML
    document.
    """
    if name.endswith(".json"):
        return msgspec.json.decode(text)
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)  # the loader in C is ten times as fast
    try:
        node = loader.get_single_node()
        _check_size(node)
        return None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(node: Any) -> None:
    """Raise `CdiError` if a YAML document holds too many values: aliases can make a small text expand to a huge tree."""
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
    except ValueError:  # a number with too many digits to print
        text = ""
    text = text if isinstance(error, (CdiError, msgspec.MsgspecError)) else f"{type(error).__name__} {text}".strip()
    return text if len(text) <= _MESSAGE_CHARACTERS else text[:_MESSAGE_CHARACTERS] + "…"


# Merging


@dataclass(frozen=True)
class Merged:
    """Combined edits of several devices, and a text for each conflict in which one device overruled another."""

    edits: CdiEdits
    conflicts: tuple[str, ...] = ()


@dataclass
class _Merge:
    """CdiEdits under construction. If a name is set twice, the last value is used, in the position of the last."""

    env: dict[str, tuple[str, str]] = field(default_factory=dict)  # name → value, source
    nodes: dict[str, tuple[CdiDeviceNode, str]] = field(default_factory=dict)
    mounts: dict[str, tuple[CdiMount, str]] = field(default_factory=dict)
    net: list[NetDevice] = field(default_factory=list)
    hooks: list[CdiHook] = field(default_factory=list)
    rdt: IntelRdt | None = None
    gids: dict[int, None] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)

    def add(self, edits: CdiEdits, whose: str) -> None:
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
        edits = CdiEdits(
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
class _CdiEntry:
    device: CdiDevice
    spec: CdiSpec
    file: Path


class Specs:
    """All CDI specs of some directories. A later directory overrules an earlier one.

    A file is read again after it changed. If two files of one directory define the same device, the device is
    unusable and the error names both files.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self.directories = tuple(directories)
        self.errors: dict[Path, str] = {}  # unusable files, as of the last scan
        self._told: dict[Path, str] = {}  # errors of the previous scan, which have been logged
        self._read: dict[Path, tuple[tuple[int, int, int], CdiSpec | None]] = {}

    def edits(self, ids: Sequence[str]) -> Merged:
        """Return the merged edits of devices, in the order of their ids; `CdiError` if an id is unknown or ambiguous.

        The edits that a spec makes for all its devices come before those of its first device.
        """
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
        """Return the error text for a device that no spec defines.

        The text includes the errors of bad spec files. `qualified` is the id of the device: VENDOR/CLASS=NAME.
        """
        text = f"CDI device {qualified} is unknown: no spec in {', '.join(map(str, self.directories))} defines it"
        return text + "".join(f"; bad file {error}" for error in self.errors.values())

    def _devices(self) -> tuple[dict[str, _CdiEntry], dict[str, list[Path]]]:
        found: dict[str, _CdiEntry] = {}
        ambiguous: dict[str, list[Path]] = {}
        for file, spec in self._specs():
            for device in spec.devices:
                qualified = f"{spec.kind}={device.name}"
                other = found.get(qualified)
                if other is not None and other.file.parent == file.parent:
                    ambiguous.setdefault(qualified, [other.file]).append(file)
                else:
                    ambiguous.pop(qualified, None)
                    found[qualified] = _CdiEntry(device, spec, file)
        return found, ambiguous

    def _specs(self) -> Iterator[tuple[Path, CdiSpec]]:
        known, self._read, self._told, self.errors = self._read, {}, self.errors, dict[Path, str]()
        for directory in self.directories:
            for entry in _files(directory):
                file = Path(entry.path)
                spec = self._load(file, entry, known)
                if spec is not None:
                    yield file, spec

    def _load(
        self, file: Path, entry: os.DirEntry[str], known: dict[Path, tuple[tuple[int, int, int], CdiSpec | None]]
    ) -> CdiSpec | None:
        try:
            status = entry.stat()
            mark = (status.st_mtime_ns, status.st_size, status.st_ino)
            before = known.get(file)
            if before is not None and before[0] == mark:
                self._read[file] = before
                if before[1] is None:  # a bad file is not parsed again until it changes
                    self.errors[file] = self._told[file]
                return before[1]
            spec = self._parsed(file, mark)
        except FileNotFoundError:
            return None  # the file was removed after the directory was read
        except (OSError, CdiError) as error:
            self.errors[file] = str(error)
            if self._told.get(file) != str(error):
                log.warning("CDI spec ignored: %s", error)
            return None
        self._read[file] = (mark, spec)
        return spec

    def _parsed(self, file: Path, mark: tuple[int, int, int]) -> CdiSpec:
        data = _content(file)
        try:
            return parse(data, str(file))
        except CdiError:
            self._read[file] = (mark, None)
            raise


def _content(file: Path) -> bytes:
    """Return the content of a regular file. Raises `CdiError` for other files, since a FIFO could block for ever.

    Raises FileNotFoundError if the file is missing.
    """
    try:
        return read_regular(file, _MOST_BYTES)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CdiError(f"{file}: {error.strerror}") from error


def _files(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted((e for e in entries if e.name.endswith(_SUFFIXES) and e.name[0] != "."), key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
