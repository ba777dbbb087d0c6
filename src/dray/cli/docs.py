"""`dray docs`: show the documentation, which is part of the package, in the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from dray.cli import Subparsers, fail

if TYPE_CHECKING:
    from rich.console import Console


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "docs",
        help="show a page of the documentation",
        description="Show a page of the documentation in the terminal.",
    )
    parser.add_argument(
        "page",
        nargs="?",
        default="index",
        metavar="PAGE",
        help="page, such as tutorials, driver or scheduler (default: the table of contents)",
    )
    parser.add_argument("--path", action="store_true", help="print the path of the page instead of its text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.cli import suggestion

    known = pages()
    page = known.get(args.page.removesuffix(".md"))
    if page is None:
        return fail("docs", f"there is no page {args.page}{suggestion(args.page, sorted(known))}", 2)
    if args.path:
        print(page)
        return 0
    _show(page.read_text(encoding="utf-8"))
    return 0


def pages() -> dict[str, Traversable]:
    """Return the pages by name; pages in a directory are named DIRECTORY/PAGE."""
    return dict(_pages_in(files("dray") / "docs", ""))


def _pages_in(directory: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    """Yield name and file of all pages below a directory.

    Names start with `prefix` and have no suffix.
    """
    for entry in directory.iterdir():
        if entry.is_dir():
            yield from _pages_in(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".md"):
            yield prefix + entry.name.removesuffix(".md"), entry


def _show(text: str) -> None:
    """Print a page; in a terminal, through a pager."""
    from rich.console import Console
    from rich.markdown import Markdown

    console: Console = Console()
    if not console.is_terminal:
        print(text, end="")  # programs receive the text unchanged
        return
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False))
