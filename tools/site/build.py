"""Make the documentation site: `python tools/site/build.py DIR`, or `make site`.

The pages of docs/ are Markdown that reads as well in a terminal (`dray docs`) and in the repository, so what only a site
needs is added to a copy of them: the table of contents, which follows the doors of index.md; `commands.md`, which comes
from the parsers of the commands; and `python.md`, which comes from the packages that users import. Links to files that are
no pages become plain text. Any warning is an error.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from dray.cli import commands, parser_of

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
# What users import, in the order in which they meet it.
PACKAGES = (
    "dray.allocator",
    "dray.cel",
    "dray.sim",
    "dray.recordings",
    "dray.replay",
    "dray.driver",
    "dray.testing",
    "dray.client",
)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
GENERATED = {"Reference": ["commands", "python"]}


def build(target: Path) -> int:
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source"
        shutil.copytree(DOCS, source)
        (source / "commands.md").write_text(commands_page())
        (source / "python.md").write_text(python_page())
        for page in source.rglob("*.md"):
            page.write_text(_without_files(page.read_text(), page))
        for page in source.glob("*.md"):
            inner = sorted(f"{page.stem}/{each.stem}" for each in (source / page.stem).glob("*.md"))
            if inner:  # the records of decisions.md stand in decisions/
                page.write_text(page.read_text() + _hidden_contents(inner))
        index = source / "index.md"
        index.write_text(index.read_text() + contents(index.read_text()))
        return sphinx(["-q", "-W", "--keep-going", "-c", str(HERE), "-d", f"{name}/doctrees", str(source), str(target)])


def contents(index: str) -> str:
    """The table of contents: a part for each door, with the pages that the door links to."""
    parts = []
    for section in index.split("\n## ")[1:]:
        door = section.partition(":")[0]
        pages = [link.removesuffix(".md") for _, link, _ in LINK.findall(section) if link.endswith(".md")]
        parts.append(_hidden_contents([*dict.fromkeys(pages), *GENERATED.get(door, ())], f":caption: {door}\n"))
    return "".join(parts)


def _hidden_contents(pages: Iterable[str], options: str = "") -> str:
    """Return a table of contents that only the navigation of the site shows."""
    listed = "\n".join(pages)
    return f"\n```{{toctree}}\n:hidden:\n{options}\n{listed}\n```\n"


def _without_files(text: str, page: Path) -> str:
    """A page whose links to files of the repository are only their names; they are not part of the site."""

    def plain(match: re.Match[str]) -> str:
        name, link, _ = match.groups()
        return match[0] if link.endswith(".md") and (page.parent / link).exists() else name

    return LINK.sub(plain, text)


def commands_page() -> str:
    """The help of every command, as it is printed at 100 columns."""
    os.environ["COLUMNS"] = "100"
    parts = ["# Commands", "Every command, as `dray COMMAND --help` prints it."]
    for name, command in _subparsers(parser_of("dray", commands())).items():
        parts += [f"## dray {name}", f"```text\n{command.format_help().rstrip()}\n```"]
        for inner, nested in _subparsers(command).items():
            parts += [f"### dray {name} {inner}", f"```text\n{nested.format_help().rstrip()}\n```"]
    return "\n\n".join(parts) + "\n"


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(groups[0].choices) if groups else {}


def python_page() -> str:
    """What each public package exports."""
    parts = ["# Python", "What you may import. A name that does not stand here may change with any version."]
    for name in PACKAGES:
        parts += [f"## {name}", f"```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n   :imported-members:\n```"]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1])))
