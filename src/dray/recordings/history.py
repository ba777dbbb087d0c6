"""What happened in a cluster after it was recorded: one line for each change, written as it happens.

The first line of a followed recording is the recording itself; each further line is a change with the time at which it was
heard of and the version that the server gave it. Every line carries a digest of itself and of all before it, so a file that
was cut off is read as far as it goes, and one that was edited is refused with the line. Left out: hearing of changes
(`following`), and what a scheduler would have done (`replay`).
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api.wire import Tree, Wire
from dray.recordings.recording import Recording, RecordingError, from_bytes, header_of, typed_object

_GZIP = b"\x1f\x8b"
_BEGINNING = b'{"kind":"Recording"'
_DIGITS = 16  # of a digest; it tells edited files, not forged ones


class DeletedObject(msgspec.Struct, frozen=True):
    """An object that was deleted."""

    apiVersion: str
    kind: str
    name: str
    namespace: str = ""


class RecordedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change: an object that came or changed (`put`), or one that is gone.

    `at` are seconds since the recording, `version` is the server's number of the change. `runs` is for how many seconds a
    pod runs once it is placed, where the end of it is not recorded.
    """

    at: float
    version: int
    put: Tree | None = None
    gone: DeletedObject | None = None
    runs: float | None = None
    digest: str = ""


class History(msgspec.Struct, frozen=True):
    """A recording and what happened after it, in the order of the server. `is_cut`: the file ends within a line."""

    recording: Recording
    events: tuple[RecordedEvent, ...] = ()
    is_cut: bool = False

    def final_objects(self) -> list[Wire]:
        """The objects as they were at the end."""
        trees = {_key(tree): tree for tree in self.recording.objects}
        for event in self.events:
            if event.put is not None:
                trees[_key(event.put)] = event.put
            elif event.gone is not None:
                trees.pop((event.gone.apiVersion, event.gone.kind, event.gone.namespace, event.gone.name), None)
        return [typed_object(number, tree) for number, tree in enumerate(trees.values())]

    @property
    def seconds(self) -> float:
        """How long it was followed."""
        return self.events[-1].at if self.events else 0.0


class HistoryFile:
    """A followed recording that is being written; whenever the process ends, what was written is whole."""

    def __init__(self, path: str, recording: Recording) -> None:
        compressed = path.endswith(".gz")
        self._file: Any = gzip.open(path, "wb") if compressed else Path(path).open("wb")  # noqa: SIM115 (see close)
        self._digest = recording.digest
        self._file.write(msgspec.json.encode(replace(recording, followed=True)) + b"\n")
        self._file.flush()
        self.events = 0

    def write(self, events: Iterable[RecordedEvent]) -> None:
        for event in events:
            self._digest = _digest(self._digest, event)
            self._file.write(msgspec.json.encode(replace(event, digest=self._digest)) + b"\n")
            self.events += 1
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def history_from_bytes(content: bytes) -> History:
    """The recording in a file, followed or not, compressed or not. Raises RecordingError."""
    plain = _unpacked(content) if content.startswith(_GZIP) else content
    first, _, rest = plain.partition(b"\n")
    if not plain.startswith(_BEGINNING) or not (header := header_of(first)).followed:
        return History(from_bytes(content))
    events = [*_events(header, rest)]
    is_cut = bool(rest) and not rest.endswith(b"\n")
    return History(header, tuple(sorted(events, key=lambda event: event.version)), is_cut)


def _events(header: Recording, content: bytes) -> Iterator[RecordedEvent]:
    """The events in whole lines; what comes after the last of them was cut off."""
    digest, at = header.digest, 0.0
    for number, line in enumerate(content.split(b"\n")[:-1]):
        try:
            event = msgspec.json.decode(line, type=RecordedEvent)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _edited(number, at) from error
        digest = _digest(digest, replace(event, digest=""))
        if event.digest != digest:
            raise _edited(number, at)
        at = event.at
        yield event


def _edited(number: int, at: float) -> RecordingError:
    return RecordingError(
        f"line {number + 2} was edited or is damaged: its digest is not that of its content; "
        f"whole are the recording and the {number} events before it, up to second {at:.1f}"
    )


def _unpacked(content: bytes) -> bytes:
    """What can be unpacked of a compressed file, also of one that was cut off."""
    unpacking, plain = zlib.decompressobj(wbits=31), b""
    try:
        plain = unpacking.decompress(content)
    except zlib.error as error:
        raise RecordingError(f"the file is cut off or damaged: {error}") from error
    return plain


def _digest(before: str, event: RecordedEvent) -> str:
    return hashlib.sha256(before.encode() + msgspec.json.encode(event)).hexdigest()[:_DIGITS]


def _key(tree: Tree) -> tuple[str, str, str, str]:
    meta = tree.get("metadata", {})
    return tree.get("apiVersion", ""), tree.get("kind", ""), meta.get("namespace", ""), meta.get("name", "")
