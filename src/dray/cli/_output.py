"""Output of results: data for programs, or columns of text."""

from __future__ import annotations

from collections.abc import Sequence


def data(answer: object, form: str) -> str:
    """Return a result as indented JSON, or as YAML.

    `form` is "json"; any other form gives YAML.
    """
    import msgspec

    if form == "json":
        return msgspec.json.format(msgspec.json.encode(answer)).decode()
    import yaml

    return str(yaml.safe_dump(msgspec.to_builtins(answer), sort_keys=False, allow_unicode=True)).rstrip("\n")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, with columns as wide as their longest cell; the last column may have any length."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]).rstrip() for row in rows]
