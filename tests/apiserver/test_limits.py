"""The limits of a server are those that its documentation names."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dray.apiserver.limits import TABLE, Limits, number

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"


def test_the_documentation_prints_the_table() -> None:
    table = PAGE.read_text().partition("## Limits")[2].partition("|---|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [f"| {row.what} | {number(row)} | {row.answer} | {row.kubernetes} |" for row in TABLE]
    assert table.splitlines() == rows


def test_every_limit_is_in_the_table() -> None:
    listed = {row.limit for row in TABLE}
    assert set(msgspec.structs.asdict(Limits())) - listed == {"body_bytes_a_second"}  # told with body_seconds
