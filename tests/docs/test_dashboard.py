"""The protocol in docs/dashboard-protocol.md is the one that the server speaks."""

from __future__ import annotations

import json
import re
from pathlib import Path

from dray.api.availability import DeviceState
from dray.api.reasons.devices import PoolCode
from dray.web.questions import Desk
from dray.web.rights import FOLLOWED, VisibleScope
from dray.web.rows.claims import PodState
from dray.web.rows.devices import DeviceFlag
from dray.web.streaming import MOST_BYTES
from dray.web.tables import COLUMNS
from dray.web.wire import _POLICY

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "dashboard-protocol.md").read_text()
FLAT = re.sub(r"\s+", " ", PAGE)


def _columns(table: str) -> list[str]:
    """The columns that the page lists for a table: names at the beginning of each part, outside of parentheses."""
    [row] = re.findall(rf"^\| `{table}` \| (`id`.*) \|$", PAGE, re.M)
    while (shorter := re.sub(r"\([^()]*\)", "", row)) != row:
        row = shorter
    return [name.rstrip("§") for name in re.findall(r"`([a-z]+§?)`", row)]


def test_every_table_has_the_columns_that_the_page_lists() -> None:
    for table, columns in COLUMNS.items():
        assert _columns(table) == ["id", *columns], table


def test_states_and_flags_are_those_of_the_page() -> None:
    for state in DeviceState:
        assert f"{state.value} `{state.name.lower()}`" in FLAT
    for pod in PodState:
        assert f"{pod.value} `{pod.name.lower()}`" in FLAT
    assert [flag.value for flag in DeviceFlag] == [1, 2, 4, 8]
    for scope in VisibleScope:
        assert f"`{scope.value}`" in PAGE
    for code in PoolCode:
        assert f"`{code.value}`" in PAGE


def test_every_question_is_described() -> None:
    for kind in Desk(None)._kinds:  # type: ignore[arg-type]  # nobody is asked
        assert re.search(rf"^### .*`{kind}`", PAGE, re.M), kind


def test_headers_and_limits_are_those_of_the_page() -> None:
    assert _POLICY.decode() in FLAT
    assert f"{MOST_BYTES >> 20} MiB behind" in FLAT


def test_examples_are_json_and_name_every_resource() -> None:
    examples = [json.loads(text.replace("…", "x")) for text in re.findall(r"```json\n(.*?)```", PAGE, re.S)]
    [hello] = [one for one in examples if "epoch" in one]
    assert len(hello["resources"]) == len(FOLLOWED)
