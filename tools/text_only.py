"""Check that a change rewrites docstrings and comments only: the syntax trees without docstrings must be equal.

python tools/text_only.py            compares the working tree with HEAD
python tools/text_only.py REV        compares the working tree with REV
python tools/text_only.py REV REV    compares two revisions

Prints each Python file whose code differs, and exits with 1 if there is one. Files that are not Python are not compared.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def code(text: str) -> str:
    """Syntax tree of a module without docstrings, as text. A body that was only a docstring becomes `pass`."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [statement for statement in body if not _is_docstring(statement)]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_docstring(statement: ast.stmt) -> bool:
    """Return whether a statement is a string that nothing uses: a docstring of a module, class, function or attribute."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def changed_code(before: str, after: str | None, root: Path = ROOT) -> list[str]:
    """Return the Python files whose code differs between two revisions; `after` is None for the working tree."""
    revisions = [before] if after is None else [before, after]
    names = _git(root, "diff", "--name-only", "--no-renames", *revisions).splitlines()
    return [
        name for name in names if name.endswith(".py") and _code_of(root, before, name) != _code_of(root, after, name)
    ]


def _code_of(root: Path, revision: str | None, name: str) -> str | None:
    """Code of one file in a revision or in the working tree, or None if the file does not exist there."""
    if revision is None:
        return code((root / name).read_text()) if (root / name).exists() else None
    shown = subprocess.run(["git", "show", f"{revision}:{name}"], cwd=root, capture_output=True, text=True)
    return code(shown.stdout) if shown.returncode == 0 else None


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def main() -> int:
    before, after, *_ = [*sys.argv[1:3], None, None] if sys.argv[1:] else ["HEAD", None]
    changed = changed_code(before or "HEAD", after)
    for name in changed:
        print(f"{name}: code differs, not only docstrings and comments")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
