"""Typed objects from Kubernetes YAML and JSON files and from recordings, for commands that work without a cluster.

Documents may use any served version; they are checked, converted to the stored version and defaulted, like by the API
server. Left out: validation beyond the structure of an object, and checks that involve other objects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dray.api.gates import FeatureGates
from dray.api.manifests import ManifestError, object_of
from dray.api.wire import Tree, Wire
from dray.files import YamlError, read_regular, yaml_documents
from dray.recordings.history import history_from_bytes
from dray.recordings.recording import RecordingError

_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_BYTES = 256 << 20  # size limit of a file in a directory of manifests
_RECORDING = (b"\x1f\x8b", b'{"kind":"Recording"')  # first bytes of recordings, compressed or not


def read_manifests(paths: Iterable[str], gates: FeatureGates) -> list[Wire]:
    """Read objects from files, directories (their .yaml, .yml and .json files) and, for `-`, standard input.

    Raises ManifestError.
    """
    return [
        found for path in paths for source, content in _contents(path) for found in _objects(source, content, gates)
    ]


def read_recordings(paths: Iterable[str], gates: FeatureGates) -> list[Wire]:
    """Read files that describe a cluster, like `read_manifests`. Raises ManifestError if a file contains no objects."""
    found: list[Wire] = []
    for path in paths:
        objects = read_manifests([path], gates)
        if not objects:
            raise ManifestError(f"{path}: there is no object in it; expected what `dray record` writes, or manifests")
        found += objects
    return found


def _objects(source: str, content: bytes, gates: FeatureGates) -> Iterator[Wire]:
    """Yield the typed objects of a file.

    Objects of a recording are not checked or defaulted, because its digest was verified. Raises ManifestError, which
    names the file and document, if an object is invalid.
    """
    if content.startswith(_RECORDING):
        yield from _recorded(source, content)
        return
    for number, _, tree in _items(source, content):
        try:
            yield object_of(tree, gates)
        except ManifestError as error:
            raise ManifestError(f"{source}, document {number}: {error}") from error


class DocumentPlace(NamedTuple):
    """Place of an object: file, document number, and item number if the document is a List."""

    source: str
    content: bytes
    number: int
    item: int | None = None

    def __str__(self) -> str:
        item = f", item {self.item}" if self.item is not None else ""
        return f"{self.source}, document {self.number}{item}"


def read_trees(paths: Iterable[str]) -> Iterator[tuple[DocumentPlace, Tree]]:
    """Yield the undecoded objects with their places; items of a List one by one.

    Raises ManifestError if a file cannot be read or parsed.
    """
    for path in paths:
        for source, content in _contents(path):
            for number, item, tree in _items(source, content):
                yield DocumentPlace(source, content, number, item), tree


def _contents(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file of a path. Raises ManifestError.

    A path is a file, "-" for standard input, or a directory, of which files with known suffixes are read.
    ManifestError is raised if there are none or one cannot be read.
    """
    if path == "-":
        yield "standard input", sys.stdin.buffer.read()
        return
    place = Path(path)
    files = sorted(p for p in place.iterdir() if p.suffix in _SUFFIXES) if place.is_dir() else [place]
    if not files:
        raise ManifestError(f"{path}: expected files that end with {', '.join(_SUFFIXES)}, and there is none")
    for file in files:
        try:
            yield str(file), read_regular(file, _MOST_BYTES) if place.is_dir() else file.read_bytes()
        except OSError as error:
            raise ManifestError(f"{file}: {error.strerror or error}") from error


def _items(source: str, content: bytes) -> Iterator[tuple[int, int | None, Tree]]:
    """Yield the objects of a file with document number and, in a List or recording, item number.

    Numbers count from 1; the item number is None elsewhere. Empty documents are left out. Raises ManifestError for a
    document or item that is not an object.
    """
    for number, tree in enumerate(_loaded(source, content), 1):
        if tree is None:
            continue
        if not isinstance(tree, dict):
            raise ManifestError(f"{source}, document {number}: expected an object with apiVersion and kind")
        if tree.get("kind") == "Recording":
            objects = map(msgspec.to_builtins, _recorded(source, content))
            yield from ((number, at, item) for at, item in enumerate(objects, 1))
        elif tree.get("kind") == "List":
            for at, item in enumerate(tree.get("items") or (), 1):
                if not isinstance(item, dict):
                    raise ManifestError(f"{source}, document {number}, item {at}: expected an object")
                yield number, at, item
        else:
            yield number, None, tree


def _loaded(source: str, content: bytes) -> Iterator[Any]:
    """Yield the documents of a file. JSON is parsed as JSON, because YAML parsing is slow for large files.

    Raises ManifestError if the file is neither a recording nor JSON nor YAML. A recording gives one tree with only
    its kind.
    """
    if content.startswith(_RECORDING):
        yield {"kind": "Recording"}  # read by `_recorded`, which reports truncated files
        return
    with suppress(msgspec.DecodeError):
        yield msgspec.json.decode(content)
        return
    try:
        yield from yaml_documents(content.decode())
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source}: expected a recording, JSON or YAML: {error}") from error
    except YamlError as error:
        raise ManifestError(f"{source}: {error}") from error


def _recorded(source: str, content: bytes) -> list[Wire]:
    """Return the last state of the objects of a recording. Raises ManifestError."""
    try:
        history = history_from_bytes(content)
        if history.is_cut:
            print(f"{source} is cut off; using what it has up to second {history.seconds:.1f}", file=sys.stderr)
        return history.final_objects()
    except RecordingError as error:
        raise ManifestError(f"{source}: {error}") from error
