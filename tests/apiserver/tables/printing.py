"""One row of a table."""

from __future__ import annotations

from typing import Any

from dray.api.resources import BY_TYPE
from dray.api.wire import Wire
from dray.apiserver.tables import table


def cells(obj: Wire, now: float) -> list[Any]:
    """What is printed of an object, wide columns included."""
    answer: list[Any] = table(BY_TYPE[type(obj)], [obj], now=now)["rows"][0]["cells"]
    return answer
