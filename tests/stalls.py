"""Stalls of servers in the test's own process, as their watchdog reports them."""

from __future__ import annotations

import logging
from types import TracebackType

MOST_SECONDS = 1.0  # of the processor, for one turn of the event loop; a limit that no machine is too slow for
_WATCHDOG = logging.getLogger("dray.apiserver.watchdog")


class Stalls(logging.Handler):
    """Collects what the watchdogs of all servers say within the context."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)  # a server that has just begun says it at this level
        self._long: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """What a test itself calls on the loop is not the server's fault."""
        seconds, outermost = getattr(record, "seconds", 0.0), getattr(record, "outermost", "")
        if seconds > MOST_SECONDS and not outermost.startswith("tests."):
            self._long.append(record.getMessage())

    def complaint(self) -> str:
        """What is wrong, or nothing."""
        return f"a server stalled for more than {MOST_SECONDS:g} s: {'; '.join(self._long)}" if self._long else ""

    def __enter__(self) -> Stalls:
        self._level_before = _WATCHDOG.level
        _WATCHDOG.setLevel(logging.INFO)
        _WATCHDOG.addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _WATCHDOG.removeHandler(self)
        _WATCHDOG.setLevel(self._level_before)
