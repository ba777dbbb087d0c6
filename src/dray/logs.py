"""The form of log lines: text, or one JSON object per line, with the ID of the request that a line is about.

Left out: which lines are written (`--v`), and where.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from datetime import UTC, datetime
from uuid import uuid4

FORMATS = ("text", "json")
_TASK = "request "  # what names of tasks begin with that work on a request
_FROM_CLIENT = re.compile(r"[A-Za-z0-9-]{1,64}")


def request_id(proposed: str) -> str:
    """The ID that a client proposes for its request if it can be used, else a new one."""
    return proposed if _FROM_CLIENT.fullmatch(proposed) else str(uuid4())


def begin_request(identifier: str) -> None:
    """Let log lines of this task have the ID of the request that it works on."""
    task = asyncio.current_task()
    assert task is not None
    task.set_name(_TASK + identifier)


def _current_request() -> str:
    """The ID of the request that this task works on; empty outside of requests."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop
        return ""
    name = task.get_name() if task is not None else ""
    return name.removeprefix(_TASK) if name.startswith(_TASK) else ""


class TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname).1s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # logging's own name
        line, current = super().formatMessage(record), _current_request()
        return f"{line} (request {current})" if current else line


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if current := _current_request():
            line["requestID"] = current
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
