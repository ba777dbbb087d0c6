"""Timestamps in the format of the API: RFC 3339 in UTC, with seconds or microseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def timestamp(seconds: float) -> str:
    """Return seconds since 1970 as `2026-01-31T12:00:00Z`, the format of metav1.Time. Fractions are dropped."""
    return _second(int(seconds // 1))


@lru_cache(maxsize=16)  # most timestamps repeat within the same second
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(seconds: float) -> str:
    """Return seconds since 1970 as `2026-01-31T12:00:00.000000Z`, the format of metav1.MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> float:
    """Return the seconds since 1970 of a Time or MicroTime. Raises ValueError if the text is invalid."""
    return datetime.fromisoformat(text).timestamp()
