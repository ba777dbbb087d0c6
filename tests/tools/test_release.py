"""`tools/release.py` refuses to release what lacks notes or files."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest
from tools.release import NEEDED, ReleaseError, checksums, missing_from, notes, version

CHANGELOG = """# Changelog

## 1.1.0 (2026-02-01)

- New.

## 1.0.0 (2026-01-01)

## 0.9.0

- Old.
"""


def test_notes_are_the_section_of_the_version() -> None:
    assert notes(CHANGELOG, "1.1.0") == "- New.\n"
    assert notes(CHANGELOG, "0.9.0") == "- Old.\n"


@pytest.mark.parametrize("number", ["1.0.0", "1.1", "2.0.0"])
def test_a_version_without_notes_is_refused(number: str) -> None:
    with pytest.raises(ReleaseError, match="CHANGELOG"):
        notes(CHANGELOG, number)


def test_the_changelog_of_this_tree_has_notes_for_its_version() -> None:
    assert notes((Path(__file__).parents[2] / "CHANGELOG.md").read_text(), version())


def test_a_wheel_without_a_picture_is_noticed(tmp_path: Path) -> None:
    wheel = tmp_path / "dray.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in NEEDED:
            if not name.endswith(".png"):
                archive.writestr(name, "")
    assert missing_from(wheel) == ["dray/docs/screens/dashboard-map-light-1280.png"]


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("two")
    (tmp_path / "a").write_text("one")
    one, two = (hashlib.sha256(text.encode()).hexdigest() for text in ("one", "two"))
    assert checksums(tmp_path) == f"{one}  a\n{two}  b\n"
