"""Files of a volume change all at once, and nothing that was planted there is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.node.atomicfiles import FileContent, write_files


def seen(directory: Path) -> dict[str, str]:
    """The files as a container finds them."""
    names = [name for name in os.listdir(directory) if not name.startswith("..")]
    found: dict[str, str] = {}
    for name in names:
        for file in [directory / name] if (directory / name).is_file() else (directory / name).rglob("*"):
            if file.is_file():
                found[str(file.relative_to(directory))] = file.read_text()
    return found


def files(**texts: str) -> dict[str, FileContent]:
    return {name.replace("_", "/"): FileContent(text.encode()) for name, text in texts.items()}


def test_files_are_laid_out_as_kubelets_do(tmp_path: Path) -> None:
    assert write_files(tmp_path / "v", {"a": FileContent(b"1", 0o400), "deep/b": FileContent(b"2")})
    assert seen(tmp_path / "v") == {"a": "1", "deep/b": "2"}
    assert os.readlink(tmp_path / "v/a") == "..data/a"
    assert os.readlink(tmp_path / "v/..data").startswith("..20")
    assert (tmp_path / "v/a").stat().st_mode & 0o777 == 0o400


def test_a_change_replaces_all_files_and_no_change_replaces_none(tmp_path: Path) -> None:
    write_files(tmp_path, files(a="1", gone="x"))
    before = os.readlink(tmp_path / "..data")
    assert not write_files(tmp_path, files(a="1", gone="x"))
    assert os.readlink(tmp_path / "..data") == before
    assert write_files(tmp_path, files(a="2", new_file="y"))
    assert seen(tmp_path) == {"a": "2", "new/file": "y"}
    assert sorted(os.listdir(tmp_path)) == sorted(["..data", os.readlink(tmp_path / "..data"), "a", "new"])


@pytest.mark.parametrize("name", ["a", "..data", "deep"])
def test_what_was_planted_is_replaced_and_not_followed(tmp_path: Path, name: str) -> None:
    volume, outside = tmp_path / "v", tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("whole")
    write_files(volume, files(a="1", deep_b="2"))
    (volume / name).unlink()
    (volume / name).symlink_to(outside)
    assert write_files(volume, files(a="changed", deep_b="2"))
    assert {file.name: file.read_text() for file in outside.iterdir()} == {"a": "whole"}
    assert seen(volume) == {"a": "changed", "deep/b": "2"}


@pytest.mark.parametrize("path", ["/tmp/escape", "../escape", "a/../../escape", ".."])
def test_a_path_that_leaves_the_volume_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(OSError, match=r".+"):
        write_files(tmp_path / "v", {path: FileContent(b"x")})
    assert [*tmp_path.iterdir()] == [tmp_path / "v"]
    assert not os.path.exists("/tmp/escape")
