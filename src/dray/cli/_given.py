"""Record which options a command line gives, in contrast to defaults."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

GIVEN = "given"
"""Attribute of the parsed arguments with the names of the given options."""


def note_given(parser: argparse.ArgumentParser) -> None:
    """Record the options that are added to the parser from now on."""
    for name in (None, "store"):
        parser.register("action", name, _Stored)
    parser.register("action", "store_true", _Switched)
    parser.register("action", "append", _Appended)


class _Stored(argparse.Action):
    """Stores a value and records the option."""

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
    """Stores True and records the option."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:  # argparse's name
        super().__init__(option_strings, dest, nargs=0, default=False, help=help)

    def value(self, namespace: argparse.Namespace, values: object) -> object:
        return True


class _Appended(_Stored):
    """Appends a value and records the option."""

    def value(self, namespace: argparse.Namespace, values: object) -> object:
        return [*(getattr(namespace, self.dest, None) or ()), values]
