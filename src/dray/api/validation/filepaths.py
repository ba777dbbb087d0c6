"""Paths of files and directories as pods name them: those that must stay below a volume, and the modes of files."""

from __future__ import annotations

from dray.api.errors import invalid
from dray.api.paths import Path
from dray.api.validation.lists import Errors

_MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def without_backsteps(value: str, path: Path) -> Errors:
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


def descending(value: str, path: Path) -> Errors:
    """A path that stays below the directory it starts from."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from without_backsteps(value, path)


def unreserved(value: str, path: Path) -> Errors:
    """A descending path beside the names that begin with two dots, which a node keeps for itself."""
    yield from descending(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")


def file_mode(value: int | None, path: Path) -> Errors:
    if value is not None and not 0 <= value <= 0o777:
        yield invalid(path, value, _MODE)
