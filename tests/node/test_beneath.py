"""Paths below a directory stay there, whatever was planted on the way."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.node.beneath import PathEscape, open_beneath, open_directory, write_new


def opened(base: Path, path: str, create: int | None = None) -> str:
    """Where a path leads to."""
    start = open_directory(str(base))
    try:
        found = open_beneath(start, path, create)
    finally:
        os.close(start)
    try:
        return os.readlink(f"/proc/self/fd/{found}")
    finally:
        os.close(found)


def test_links_inside_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "link").symlink_to("../a/b/./")
    assert opened(tmp_path, "a/link/..") == str(tmp_path / "a")
    assert opened(tmp_path, "new/deep", create=0o750) == str(tmp_path / "new/deep")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("target", ["/etc", "../..", "../outside", "loop"])
def test_links_that_lead_out_are_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").mkdir()
    base = tmp_path / "base"
    base.mkdir()
    (base / "loop").symlink_to(target)
    for path in ("loop", "loop/x"):
        with pytest.raises(PathEscape):
            opened(base, path, create=0o755)
    assert [*(tmp_path / "outside").iterdir()] == []


def test_a_base_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(OSError, match="link"):
        open_directory(str(tmp_path / "link"))


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "out/x", "file", "..", ""])
def test_files_are_written_below_their_directory_or_not_at_all(tmp_path: Path, path: str) -> None:
    outside, base = tmp_path / "outside", tmp_path / "base"
    outside.mkdir()
    base.mkdir()
    (outside / "victim").write_text("whole")
    (base / "out").symlink_to(outside)
    (base / "file").symlink_to(outside / "victim")
    start = open_directory(str(base))
    with pytest.raises(OSError, match=r".+"):
        write_new(start, path, b"mine", 0o644)
    os.close(start)
    assert {f.name: f.read_text() for f in outside.iterdir()} == {"victim": "whole"}
    assert sorted(f.name for f in tmp_path.iterdir()) == ["base", "outside"]


_NAMES = st.sampled_from(["a", "b", "c", "..", "."])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)
_TARGETS = st.one_of(_PATHS, _PATHS.map(lambda path: f"/{path}"))


def plant(base: Path, place: str, target: str) -> None:
    """Make a link; the way to it has none, so that setting the stage stays inside."""
    names = [name for name in place.split("/") if name != "."]
    here = base
    for name in names[:-1]:
        here = here / name
        if name == ".." or here.is_symlink():
            return
        here.mkdir(exist_ok=True)
    if names and names[-1] != ".." and not os.path.lexists(here / names[-1]):
        os.symlink(target, here / names[-1])


@given(st.lists(st.tuples(_PATHS, _TARGETS), max_size=5), _PATHS)
def test_no_tree_of_links_leads_out(links: list[tuple[str, str]], path: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory).resolve() / "base"
        base.mkdir()
        for place, target in links:
            plant(base, place, target)
        try:
            where = opened(base, path)
        except OSError:
            return
        assert where == str(base) or where.startswith(f"{base}/")
