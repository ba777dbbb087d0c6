"""`tools/text_only.py` tells changes of docstrings and comments from changes of code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools.text_only import changed_code, code

BEFORE = '''"""A module."""

import os  # for paths


class Name:
    """A class."""

    text: str
    """An attribute."""

    def empty(self) -> None:
        """Do nothing."""
'''


def test_texts_and_comments_are_no_code() -> None:
    after = '''"""Another module.

With two paragraphs.
"""
import os


class Name:

    text: str

    def empty(self) -> None:
        pass  # on purpose
'''
    assert code(after) == code(BEFORE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import os", "import sys"),
        ("text: str", "text: int"),
        ("def empty", "def full"),
        ("text: str", 'text: str = "A class."'),
    ],
)
def test_everything_else_is_code(old: str, new: str) -> None:
    assert code(BEFORE.replace(old, new)) != code(BEFORE)


def test_revisions_and_the_working_tree_are_compared(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        settings = ["-c", "user.name=name", "-c", "user.email=name@localhost"]
        subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "--quiet")
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text('"""One."""\nONE = 1\n')
    second.write_text('"""Two."""\nTWO = 2\n')
    git("add", ".")
    git("commit", "--quiet", "--message", "files")
    first.write_text('"""The number one."""\nONE = 1\n')
    assert changed_code("HEAD", None, tmp_path) == []
    second.write_text('"""Two."""\nTWO = 3\n')
    assert changed_code("HEAD", None, tmp_path) == ["second.py"]
    second.unlink()
    git("add", ".")
    git("commit", "--quiet", "--message", "texts and code")
    assert changed_code("HEAD~1", "HEAD", tmp_path) == ["second.py"]
    assert changed_code("HEAD", None, tmp_path) == []
