"""Reading files that somebody else may have put there."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from dray.files import open_regular, read_regular, read_text


def test_a_regular_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "file") == b"content"
    assert read_text(tmp_path / "link") == "content"


def make(kind: str, place: Path) -> None:
    if kind == "a FIFO":
        os.mkfifo(place)
    elif kind == "a device":
        place.symlink_to("/dev/zero")
    elif kind == "a directory":
        place.mkdir()


@pytest.mark.parametrize("kind", ["a FIFO", "a device", "a directory"])
def test_anything_else_is_refused_at_once_with_its_name(tmp_path: Path, kind: str) -> None:
    make(kind, tmp_path / "file")
    with pytest.raises(OSError, match=f"expected a regular file, found {kind}") as refused:
        read_regular(tmp_path / "file")
    assert (refused.value.errno, refused.value.filename) == (errno.EINVAL, str(tmp_path / "file"))


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "file"))
        with pytest.raises(OSError, match="No such device"):  # as Linux says it
            read_regular(tmp_path / "file")


def test_a_file_has_a_size_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(tmp_path / "file", 4)
    with pytest.raises(OSError, match="larger than 4 bytes"):
        open_regular(tmp_path / "file", 4)


def test_a_file_that_says_nothing_of_its_size_has_a_limit_too() -> None:
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_regular("/proc/self/status", 10)


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    make("a FIFO", tmp_path / "file")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="a FIFO"):
            open_regular(tmp_path / "file")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "file")
