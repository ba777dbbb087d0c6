"""What the pages point at exists: files, headings, commands, options, modules and names in them."""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

import pytest

from dray.cli import commands, parser_of
from tests.docs.pages import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
ADDRESS = re.compile(r"https?://([^\s/:)`'\"]+)")
NAME = re.compile(r"(?<![\w./-])dray(?:\.(?!db\b|log\b|dev\b)[A-Za-z_]\w*)+")  # not a domain, not a file
COMMAND = re.compile(r"(?<![\w/.-])dray ([a-z][a-z-]+)([^\n`]*)")
# Addresses of this machine, and names that stand for the reader's own.
OWN = re.compile(r"127\.0\.0\.(\d|\$n)|localhost|HOST|.*\.example(\.com)?|kubernetes\.default\.svc|…")


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_points_at_an_address_elsewhere(page: Path) -> None:
    assert [host for host in ADDRESS.findall(page.read_text()) if not OWN.fullmatch(host)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_the_library_exist(page: Path) -> None:
    unknown = [name for name in NAME.findall(page.read_text()) if not exists(name)]
    assert unknown == []


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for attribute in parts[end:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page: Path) -> None:
    known = commands()
    for name, rest in COMMAND.findall(page.read_text()):
        if name in known:
            text, rest = help_of(name), rest.partition(" -- ")[0]  # what follows belongs to another program
            assert [option for option in re.findall(r"(?<!\S)--[a-z][a-z-]+", rest) if option not in text] == [], name


def help_of(command: str) -> str:
    """The help of a command and of its actions."""
    parser = parser_of("dray", [command])
    top = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    texts = []
    for inner in top.choices.values():
        texts.append(inner.format_help())
        for action in inner._actions:
            if isinstance(action, argparse._SubParsersAction):
                texts += [nested.format_help() for nested in action.choices.values()]
    return "\n".join(texts)
