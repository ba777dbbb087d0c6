"""The script that counts code leaves out what is not code."""

from __future__ import annotations

from tools.count_code import code_lines, packages

TEXT = '''"""A module.

Two paragraphs.
"""

import os  # counts once

# a comment


def f(
    a: int,
) -> str:
    """Do something."""
    return """two
lines"""


LIMIT = 3
"""What it limits."""
'''


def test_blank_lines_comments_and_docstrings_do_not_count() -> None:
    assert code_lines(TEXT) == 7


def test_lines_are_summed_by_package_without_generated_messages() -> None:
    files = [
        ("src/dray/core/a.py", "a = 1\n"),
        ("src/dray/core/b/c.py", "b = 2\nc = 3\n"),
        ("src/dray/x.py", "d = 4\n"),
    ]
    assert packages(iter([*files, ("src/dray/rpc/m_pb2.py", "e = 5\n")])) == {"core": 3, "dray": 1}
