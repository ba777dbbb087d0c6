"""Notes which options a command line gives, as opposed to those that have their default."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

GIVEN = "given"
"""Attribute of the parsed arguments: the names of the options that were given, if there are any."""


def note_given(parser: argparse.ArgumentParser) -> None:
    """Let the options that are added to the parser from now on be noted."""
    for name in (None, "store"):
        parser.register("action", name, _Stored)
    parser.register("action", "store_true", _Switched)
    parser.register("action", "append", _Appended)


class _Stored(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, GIVEN, getattr(namespace, GIVEN, frozenset()) | {self.dest})
        setattr(namespace, self.dest, self.value(namespace, values))

    def value(self, namespace: argparse.Namespace, values: object) -> object:
        return values


class _Switched(_Stored):
    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:  # argparse's name
        super().__init__(option_strings, dest, nargs=0, default=False, help=help)

    def value(self, namespace: argparse.Namespace, values: object) -> object:
        return True


class _Appended(_Stored):
    def value(self, namespace: argparse.Namespace, values: object) -> object:
        return [*(getattr(namespace, self.dest, None) or ()), values]
