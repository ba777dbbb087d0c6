"""One row of a table."""

from __future__ import annotations

from typing import Any

from dray.api.resources import BY_TYPE
from dray.api.wire import Wire
from dray.apiserver.wire.tables import printer, row


def cells(obj: Wire, now: float) -> list[Any]:
    """What is printed of an object, wide columns included."""
    answer: list[Any] = row(printer(BY_TYPE[type(obj)]), obj, now)["cells"]
    return answer
