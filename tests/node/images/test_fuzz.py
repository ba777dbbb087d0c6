"""Archives that somebody has damaged or made up: a clear error or an image, and nothing outside of its directory."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dray.node.images.archives import Archives
from dray.node.images.manifest import ImageError
from dray.node.images.reference import ImageName
from tests.node.images.imaging import Layout, layer, special
from tests.node.images.test_sources import unpacked
from tests.node.images.test_unpack import unpack

APP = ImageName.parse("app:1")
FILES = {"bin/": "", "bin/app": b"#!/bin/sh\n" * 40, "link": "bin/app", "deep/er/": "", "deep/er/file": b"x"}
# Values that a program may expect elsewhere, and some that it never expects.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("sha256:" + "0" * 64),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["digest", "layers", "x"]), inner),
    max_leaves=6,
)


@contextmanager
def place() -> Iterator[Path]:
    """A directory beside which there is something to spoil."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "victim").write_text("whole")
        yield directory
        assert (directory / "victim").read_text() == "whole"
        assert set(os.listdir(directory)) <= {"victim", "images", "library", "r"}


def damaged(data: st.DataObject, whole: bytes) -> bytes:
    """Bytes that were cut, doubled, exchanged or overwritten somewhere."""
    at = data.draw(st.integers(0, len(whole) - 1))
    piece = data.draw(st.binary(min_size=1, max_size=8))
    how = data.draw(st.sampled_from(["cut", "overwrite", "insert", "double"]))
    if how == "cut":
        return whole[:at]
    if how == "overwrite":
        return whole[:at] + piece + whole[at + len(piece) :]
    return whole[:at] + piece + whole[at:] if how == "insert" else whole + whole[at:]


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_layer_is_refused_or_stays_in_its_place(data: st.DataObject) -> None:
    with place() as directory, suppress(ImageError):
        unpack(directory / "r", damaged(data, layer(FILES)))


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_archive_gives_its_image_or_an_error(data: st.DataObject) -> None:
    with place() as directory:
        layout = Layout(directory / "images" / "app")
        layout.add("1", [layer(FILES)])
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for entry in sorted(layout.directory.iterdir()):
                archive.add(entry, entry.name)
        for file in sorted(layout.directory.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        layout.directory.rmdir()
        (directory / "images/app.tar").write_bytes(damaged(data, stream.getvalue()))
        found_or_refused(directory)


@settings(max_examples=100)
@given(st.sampled_from(["index.json", "manifest", "config"]), st.data())
def test_documents_that_say_something_else_are_refused(which: str, data: st.DataObject) -> None:
    with place() as directory:
        layout = Layout(directory / "images" / "app")
        digest = layout.add("1", [layer(FILES)])
        index = layout.directory / "index.json"
        manifest: Any = json.loads((layout.directory / "blobs/sha256" / digest[7:]).read_bytes())
        if which == "index.json":
            index.write_text(json.dumps(changed(data, json.loads(index.read_text()))))
        elif which == "manifest":
            entry = layout.blob(json.dumps(changed(data, manifest)).encode(), manifest["mediaType"])
            named = entry | {"annotations": {"org.opencontainers.image.ref.name": "1"}}
            index.write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
        else:
            config = json.loads((layout.directory / "blobs/sha256" / manifest["config"]["digest"][7:]).read_bytes())
            blob = layout.blob(json.dumps(changed(data, config)).encode(), manifest["config"]["mediaType"])
            entry = layout.blob(json.dumps(manifest | {"config": blob}).encode(), manifest["mediaType"])
            named = entry | {"annotations": {"org.opencontainers.image.ref.name": "1"}}
            index.write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
        found_or_refused(directory)


def changed(data: st.DataObject, tree: Any) -> Any:
    """A document with something else in one place."""
    if isinstance(tree, dict) and tree and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(tree)))
        return tree | {key: changed(data, tree[key])}
    if isinstance(tree, list) and tree and data.draw(st.booleans()):
        return [changed(data, tree[0]), *tree[1:]]
    return data.draw(JSON)


def found_or_refused(directory: Path) -> None:
    try:
        found = Archives([directory / "images"]).find(APP)
        if found is not None:
            unpacked(directory / "library", found)
    except ImageError:
        library = directory / "library"
        assert not library.exists() or os.listdir(library) == []


KINDS = st.sampled_from([tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, b"\x7f"])
NAMES = st.lists(st.sampled_from(["a", "..", "", ".wh.a", "\xff", "x" * 300]), min_size=1, max_size=4).map("/".join)


@settings(max_examples=100)
@given(st.lists(st.tuples(NAMES, KINDS, NAMES, st.integers(0, 0o7777)), max_size=5))
def test_entries_of_any_kind_stay_in_their_place(entries: list[tuple[str, bytes, str, int]]) -> None:
    with place() as directory:
        for name, kind, target, mode in entries:
            data = layer({name: special(name, kind, linkname=target, mode=mode)})
            with suppress(ImageError):
                unpack(directory / "r", data)
