"""Layers become files below one directory, whatever they contain."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.node.images.manifest import ImageError
from dray.node.images.unpack import Unpacking
from tests.node.images.imaging import Entry, digest, layer, special


def unpack(directory: Path, *layers: bytes, most_bytes: int = 1 << 20, most_entries: int = 1000) -> None:
    directory.mkdir(exist_ok=True)
    unpacking = Unpacking(directory, most_bytes, most_entries)
    try:
        for data in layers:
            unpacking.layer(io.BufferedReader(io.BytesIO(data)), "", "layer")  # type: ignore[arg-type]  # bytes in memory
    finally:
        unpacking.close()


def tree(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(directory.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def test_later_layers_replace_and_remove(tmp_path: Path) -> None:
    lower = layer({"a/": "", "a/keep": b"1", "a/gone": b"2", "old/x": b"3", "old/y": b"4", "swap": b"5", "dir/": ""})
    upper = layer(
        {"a/.wh.gone": b"", "old/new": b"6", "old/.wh..wh..opq": b"", "swap/": "", "swap/in": b"7", "dir": "a"}
    )
    unpack(tmp_path / "r", lower, gzip.compress(upper))
    assert tree(tmp_path / "r") == {"a/keep": "1", "old/new": "6", "swap/in": "7", "dir": "a"}


def test_links_are_those_of_the_image(tmp_path: Path) -> None:
    first = layer({"usr/lib/": "", "lib": "usr/lib", "run/": "", "var/": "", "var/run": "/run"})
    second = layer({"lib/x": b"1", "var/run/y": b"2", "hard": special("hard", tarfile.LNKTYPE, linkname="usr/lib/x")})
    unpack(tmp_path / "r", first, second)
    assert tree(tmp_path / "r") == {"usr/lib/x": "1", "lib": "usr/lib", "run/y": "2", "var/run": "/run", "hard": "1"}
    assert (tmp_path / "r/hard").stat().st_ino == (tmp_path / "r/usr/lib/x").stat().st_ino


HOSTILE: dict[str, dict[str, Entry]] = {
    "up": {"../escape": b"x"},
    "deep": {"a/../../escape": b"x"},
    "absolute": {"/escape": b"x"},
    "through a link": {"out": "..", "out/escape": b"x"},
    "through an absolute link": {"out": "/tmp", "out/dray-escape": b"x"},
    "over a link": {"file": "../victim", "file ": b"", "./file": b"changed"},
    "hard link up": {"mine": special("mine", tarfile.LNKTYPE, linkname="../victim")},
    "hard link through a link": {"out": "..", "mine": special("mine", tarfile.LNKTYPE, linkname="out/victim")},
    "whiteout up": {"../.wh.victim": b""},
    "whiteout of dots": {".wh...": b""},
    "whiteout through a link": {"out": "..", "out/.wh.victim": b""},
    "opaque through a link": {"out": "..", "out/.wh..wh..opq": b""},
    "device": {"disk": special("disk", tarfile.BLKTYPE, devmajor=8, devminor=0)},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_written_or_removed_elsewhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "victim").write_text("whole")
    with contextlib.suppress(ImageError):
        unpack(tmp_path / "r", layer(HOSTILE[name]))
    assert sorted(os.listdir(tmp_path)) == ["r", "victim"]
    assert (tmp_path / "victim").read_text() == "whole"
    assert (tmp_path / "victim").stat().st_nlink == 1
    assert not os.path.exists("/escape")
    assert not os.path.exists("/tmp/dray-escape")
    assert all(path.is_file() or path.is_dir() or path.is_symlink() for path in (tmp_path / "r").rglob("*"))


def sparse() -> bytes:
    """A megabyte of holes in a few bytes."""
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.size": str(1 << 30),
        "GNU.sparse.map": "0,1",
    }
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (gzip.compress(layer({"big": bytes(4 << 20)})), "more than 1048576 bytes"),
        (gzip.compress(bytes(4 << 20)), "more than 1048576 bytes"),
        (sparse(), "more than 1048576 bytes"),
        (layer({f"f{number}": b"" for number in range(1001)}), "too many files"),
        (gzip.compress(layer({"a": b"1" * 5000}))[:-20], "layer: "),
        (layer({"a": b"1" * 5000})[:-9000], "layer: "),
        (b"nonsense" * 100, "layer: "),
        (b"\x28\xb5\x2f\xfd" + bytes(100), "compressed with zstd"),
    ],
    ids=["bomb", "zeros", "sparse", "entries", "cut", "cut plain", "nonsense", "zstd"],
)
def test_what_is_too_large_or_broken_is_refused(tmp_path: Path, data: bytes, text: str) -> None:
    with pytest.raises(ImageError, match=text):
        unpack(tmp_path / "r", data)


def test_a_wrong_digest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    unpacking = Unpacking(tmp_path / "r")
    data = layer({"a": b"1"})
    unpacking.layer(io.BufferedReader(io.BytesIO(data)), digest(data), "layer 0")  # type: ignore[arg-type]
    with pytest.raises(ImageError, match=f"layer 1: the uncompressed digest is {digest(data)}, expected sha256:00"):
        unpacking.layer(io.BufferedReader(io.BytesIO(data)), "sha256:" + "0" * 64, "layer 1")  # type: ignore[arg-type]
    unpacking.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["a", "b", "..", ".", ".wh.a", ".wh..wh..opq"]), min_size=1, max_size=3).map(
                "/".join
            ),
            st.sampled_from([b"x", "..", "/", "a", "../victim", "/a/b"]),
        ),
        max_size=8,
    )
)
def test_no_order_of_entries_leads_out(tmp_path: Path, entries: list[tuple[str, Entry]]) -> None:
    victim = tmp_path / "victim"
    victim.write_text("whole")
    unpacking_in = tmp_path / "r"
    for name, entry in entries:
        try:
            unpack(unpacking_in, layer({name: entry}))
        except ImageError:
            continue
    assert sorted(set(os.listdir(tmp_path)) - {"r"}) == ["victim"]
    assert victim.read_text() == "whole"
