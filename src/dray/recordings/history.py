"""History of a followed recording: one line for each change, written as it happens.

The first line is the recording itself; each further line is a change with the time when it was received and the
server's version. Every line carries a digest of itself and all lines before, so a truncated file is read as far as
possible, and an edited file is rejected with the line number. Left out: observing changes (`following`), and
replaying (`replay`).
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
_DIGITS = 16  # length of a digest, which detects edits but not forgery


class DeletedObject(msgspec.Struct, frozen=True):
    """Reference to a deleted object."""

    apiVersion: str
    kind: str
    name: str
    namespace: str = ""


class RecordedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change: an object that was created or changed (`put`), or deleted (`gone`).

    `at` is in seconds since the recording, `version` is the server's number of the change. `runs` is the run time of
    a pod after
    placement, if its end is not recorded.
    """

    at: float
    version: int
    put: Tree | None = None
    gone: DeletedObject | None = None
    runs: float | None = None
    digest: str = ""


class History(msgspec.Struct, frozen=True):
    """A recording and the following events, in the server's order. `is_cut`: the file ends within a line."""

    recording: Recording
    events: tuple[RecordedEvent, ...] = ()
    is_cut: bool = False

    def final_objects(self) -> list[Wire]:
        """Return the objects in their last state."""
        trees = {_key(tree): tree for tree in self.recording.objects}
        for event in self.events:
            if event.put is not None:
                trees[_key(event.put)] = event.put
            elif event.gone is not None:
                trees.pop((event.gone.apiVersion, event.gone.kind, event.gone.namespace, event.gone.name), None)
        return [typed_object(number, tree) for number, tree in enumerate(trees.values())]

    @property
    def seconds(self) -> float:
        """Time of the last event, 0 without events."""
        return self.events[-1].at if self.events else 0.0


class HistoryFile:
    """A followed recording that is being written. After every write, the file is complete up to the last event."""

    def __init__(self, path: str, recording: Recording) -> None:
        compressed = path.endswith(".gz")
        self._file: Any = gzip.open(path, "wb") if compressed else Path(path).open("wb")  # noqa: SIM115 (see close)
        self._digest = recording.digest
        self._file.write(msgspec.json.encode(replace(recording, followed=True)) + b"\n")
        self._file.flush()
        self.events = 0

    def write(self, events: Iterable[RecordedEvent]) -> None:
        """Append events and flush the file."""
        for event in events:
            self._digest = _digest(self._digest, event)
            self._file.write(msgspec.json.encode(replace(event, digest=self._digest)) + b"\n")
            self.events += 1
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def history_from_bytes(content: bytes) -> History:
    """Read a recording, followed or not, compressed or not. Raises RecordingError."""
    plain = _unpacked(content) if content.startswith(_GZIP) else content
    first, _, rest = plain.partition(b"\n")
    if not plain.startswith(_BEGINNING) or not (header := header_of(first)).followed:
        return History(from_bytes(content))
    events = [*_events(header, rest)]
    is_cut = bool(rest) and not rest.endswith(b"\n")
    return History(header, tuple(sorted(events, key=lambda event: event.version)), is_cut)


def _events(header: Recording, content: bytes) -> Iterator[RecordedEvent]:
    """Yield the events in complete lines; an incomplete last line is ignored.

    Raises RecordingError if a line was edited.
    """
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
    """Decompress a file, as far as possible if it was truncated. Raises RecordingError if it is damaged."""
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
