"""Times as the API writes them: UTC in RFC 3339, to the second or to the microsecond. Left out: what time it is."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def timestamp(seconds: float) -> str:
    """`2026-01-31T12:00:00Z`, as metav1.Time is written."""
    return _second(int(seconds // 1))


@lru_cache(maxsize=16)  # what is written now was mostly written before in the same second
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(seconds: float) -> str:
    """`2026-01-31T12:00:00.000000Z`, as metav1.MicroTime is written."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> float:
    """Seconds since 1970 of a Time or MicroTime."""
    return datetime.fromisoformat(text).timestamp()
