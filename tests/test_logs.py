"""Log lines as text and as JSON, and the IDs of requests in them."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from uuid import UUID

import pytest

from dray.logs import JsonLines, TextLines, begin_request, request_id


def record(text: str, *values: object, error: bool = False) -> logging.LogRecord:
    info = sys.exc_info() if error else None
    return logging.LogRecord("dray.part", logging.WARNING, __file__, 1, text, values, info)


def test_a_json_line_has_time_level_logger_and_message() -> None:
    line = json.loads(JsonLines().format(record("%s failed", "node-0\nnode-1")))
    assert line.pop("ts").endswith("+00:00")
    assert line == {"level": "warning", "logger": "dray.part", "msg": "node-0\nnode-1 failed"}


def test_a_json_line_has_the_traceback_of_an_error() -> None:
    try:
        raise ValueError("unknown")
    except ValueError:
        line = JsonLines().format(record("failed", error=True))
    assert "\n" not in line
    assert json.loads(line)["error"].endswith("ValueError: unknown")


async def test_lines_within_a_request_have_its_id() -> None:
    async def work() -> None:
        begin_request("r-1")
        assert json.loads(JsonLines().format(record("x")))["requestID"] == "r-1"
        assert TextLines().format(record("x")).endswith("W dray.part: x (request r-1)")

    await asyncio.create_task(work())
    assert TextLines().format(record("x")).endswith("W dray.part: x")


@pytest.mark.parametrize("proposed", ["", "a b", "a\nb", "x" * 65])
def test_an_id_that_could_break_a_line_is_replaced(proposed: str) -> None:
    assert UUID(request_id(proposed))
    assert request_id("from-the-client-7") == "from-the-client-7"
