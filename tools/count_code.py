"""Count the lines of code of each package: without blank lines, comments, docstrings and generated messages.

python tools/count_code.py             the packages of src/dray, with their sum
python tools/count_code.py --base REV  the same beside another revision of this repository
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = "src/dray"
_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """Number of lines with code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for start, end in _docstrings(ast.parse(text)):
        lines.difference_update(range(start, end + 1))
    return len(lines)


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """First and last lines of strings that stand alone, which are docstrings of what they stand in or behind."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, (ast.Lambda, ast.IfExp)) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield statement.lineno, statement.end_lineno or statement.lineno


def packages(texts: Iterator[tuple[str, str]]) -> Counter[str]:
    """Lines of code by package, from paths below src/dray and their texts."""
    found: Counter[str] = Counter()
    for path, text in texts:
        if path.endswith(".py") and not path.endswith("_pb2.py"):
            name = path.removeprefix(f"{SOURCE}/").split("/")
            found[name[0] if len(name) > 1 else "dray"] += code_lines(text)
    return found


def working_tree() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / SOURCE).rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text()


def revision(name: str) -> Iterator[tuple[str, str]]:
    listed = _git("ls-tree", "-r", "--name-only", name, SOURCE).splitlines()
    for path in listed:
        if path.endswith(".py"):
            yield path, _git("show", f"{name}:{path}")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the lines of code of each package.")
    parser.add_argument("--base", metavar="REV", help="revision to compare with")
    base = parser.parse_args().base
    now, before = packages(working_tree()), packages(revision(base)) if base else Counter[str]()
    for name in sorted(now | before, key=lambda name: -now[name]):
        print(f"{name:14}{now[name]:8,}" + (f"{now[name] - before[name]:+8,}" if base else ""))
    print(f"{'sum':14}{now.total():8,}" + (f"{now.total() - before.total():+8,}" if base else ""))


if __name__ == "__main__":
    main()
