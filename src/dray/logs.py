"""The form of log lines: text, or one JSON object per line, with the ID of the request that a line is about.

Left out: which lines are written (`--v`), and where.
"""

from __future__ import annotations

import json
import logging
import re
from contextvars import ContextVar
from datetime import UTC, datetime
from uuid import uuid4

FORMATS = ("text", "json")
REQUEST_ID: ContextVar[str] = ContextVar("request ID", default="")
"""ID of the HTTP request that this task works on; empty outside of requests."""

_FROM_CLIENT = re.compile(r"[A-Za-z0-9-]{1,64}")


def request_id(proposed: str) -> str:
    """The ID that a client proposes for its request if it can be used, else a new one."""
    return proposed if _FROM_CLIENT.fullmatch(proposed) else str(uuid4())


class TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname).1s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # logging's own name
        line, current = super().formatMessage(record), REQUEST_ID.get()
        return f"{line} (request {current})" if current else line


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if current := REQUEST_ID.get():
            line["requestID"] = current
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
