"""Timestamps and durations: parsing, formatting, arithmetic, and the parts of a date in a time zone.

Both are integers of nanoseconds, because Python's datetime has microsecond resolution. datetime is used only for
calendar calculations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from dray.api.quoting import quote
from dray.cel import types
from dray.cel.declarations import Overload, function, method
from dray.cel.errors import EvaluationError
from dray.cel.values import INT_MAX, INT_MIN, NANOS, Duration, Timestamp, Value, format_seconds

MIN_SECONDS = -62135596800  # 0001-01-01T00:00:00Z
MAX_SECONDS = 253402300799  # 9999-12-31T23:59:59Z

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|([+-])(\d\d):(\d\d))\Z", re.ASCII)
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": NANOS,
    "m": 60 * NANOS,
    "h": 3600 * NANOS,
}
_DURATION_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_OFFSET = re.compile(r"[+-]?\d+\Z", re.ASCII)


def make_timestamp(seconds: int, nanos: int = 0, zone: int = 0) -> Timestamp:
    """Return a timestamp. Raises EvaluationError if it is outside the years 1 to 9999.

    `seconds` count from 1970, `nanos` is the fraction of the second, `zone` is the offset from UTC in seconds.
    """
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(seconds * NANOS + nanos, zone)


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse an RFC 3339 timestamp. Returns None if it is invalid; raises EvaluationError if it is out of range.

    The fraction of a second is cut after nine digits. The zone is kept.
    """
    found = _RFC3339.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    zone = 0
    if found[9]:
        zone = (int(found[10]) * 3600 + int(found[11]) * 60) * (-1 if found[9] == "-" else 1)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = int((moment - _EPOCH).total_seconds()) - zone
    return make_timestamp(seconds, int((found[7] or "0")[:9].ljust(9, "0")), zone)


def parse_duration(text: str) -> Duration | None:
    """Parse a duration in Go notation, like `1h2m3.5s`. Returns None if the text is invalid or out of range.

    A sign may come first, and "0" needs no unit. Texts of more than 200 characters are invalid.
    """
    body = text[1:] if text[:1] in ("+", "-") and text else text
    if body == "0":
        return Duration(0)
    if not body or len(body) > 200:
        return None
    total, position = 0, 0
    while position < len(body):
        part = _DURATION_PART.match(body, position)
        if part is None or not (part[1] or part[2]):
            return None
        unit, fraction = _UNITS[part[3]], part[2] or ""
        total += int(part[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        position = part.end()
    total = -total if text[0] == "-" else total
    return Duration(total) if INT_MIN <= total <= INT_MAX else None


def format_timestamp(timestamp: Timestamp) -> str:
    """Format a timestamp in RFC 3339, without trailing zeros in the fraction of a second."""
    moment = _moment(timestamp, timezone(timedelta(seconds=timestamp.zone)))
    nanos = timestamp.nanos % NANOS
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    if not timestamp.zone:
        zone = "Z"
    else:
        minutes = abs(timestamp.zone) // 60
        zone = f"{'-' if timestamp.zone < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{moment:%Y}".rjust(4, "0") + f"{moment:-%m-%dT%H:%M:%S}{fraction}{zone}"


def format_duration(duration: Duration) -> str:
    """Format a duration in seconds as CEL does, for example `1.5s`.

    The text ends with `s`.
    """
    return f"{format_seconds(duration)}s"


def add_span(timestamp: Timestamp, nanos: int) -> Timestamp:
    """Return the timestamp moved by `nanos` nanoseconds. Raises EvaluationError if it is outside the years 1 to 9999."""
    seconds, rest = divmod(timestamp.nanos + nanos, NANOS)
    return make_timestamp(seconds, rest, timestamp.zone)


def _moment(timestamp: Timestamp, zone: tzinfo) -> datetime:
    try:
        return (_EPOCH + timedelta(seconds=timestamp.nanos // NANOS)).astimezone(zone)
    except OverflowError as error:
        raise EvaluationError("timestamp overflow") from error


def _zone(name: str) -> tzinfo:
    hours, colon, minutes = name.partition(":")
    if not colon:
        return _named_zone(name)
    for part in (hours, minutes):
        if not _OFFSET.match(part):
            raise EvaluationError(f"strconv.Atoi: parsing {quote(part)}: invalid syntax")
    if abs(int(hours)) > 23:
        raise EvaluationError(f"timezone offset hours out of range [-23, 23]: {name}")
    if not 0 <= int(minutes) <= 59:
        raise EvaluationError(f"timezone offset minutes out of range [0, 59]: {name}")
    offset = int(hours) * 60 + (-int(minutes) if name[0] == "-" else int(minutes))
    return timezone(timedelta(minutes=offset))


def _named_zone(name: str) -> tzinfo:
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise EvaluationError(f"unknown time zone {name}") from error


def _part(read: Callable[[datetime], int]) -> Callable[..., Value]:
    def part(timestamp: Timestamp, zone: str = "UTC") -> Value:
        return read(_moment(timestamp, _zone(zone)))

    return part


def _milliseconds(timestamp: Timestamp, zone: str = "UTC") -> Value:
    _zone(zone)
    return timestamp.nanos % NANOS // 1_000_000


def _whole(unit: int) -> Callable[[Duration], Value]:
    def whole(duration: Duration) -> Value:
        return int(duration.nanos / unit) if unit != 1_000_000 else abs(duration.nanos) // unit * _sign(duration.nanos)

    return whole


def _sign(number: int) -> int:
    return -1 if number < 0 else 1


def _of_timestamp(name: str, run: Callable[..., Value]) -> list[Overload]:
    return [
        method(f"timestamp_to_{name}", (types.TIMESTAMP,), types.INT, run),
        method(f"timestamp_to_{name}_with_tz", (types.TIMESTAMP, types.STRING), types.INT, run),
    ]


def _of_both(name: str, run: Callable[..., Value], unit: int) -> list[Overload]:
    return [
        *_of_timestamp(name, run),
        method(f"duration_to_{name}", (types.DURATION,), types.INT, _whole(unit)),
    ]


FUNCTIONS = (
    function("getFullYear", *_of_timestamp("year", _part(lambda moment: moment.year))),
    function("getMonth", *_of_timestamp("month", _part(lambda moment: moment.month - 1))),
    function("getDayOfYear", *_of_timestamp("day_of_year", _part(lambda moment: moment.timetuple().tm_yday - 1))),
    function("getDayOfMonth", *_of_timestamp("day_of_month", _part(lambda moment: moment.day - 1))),
    function("getDate", *_of_timestamp("day_of_month_1_based", _part(lambda moment: moment.day))),
    function("getDayOfWeek", *_of_timestamp("day_of_week", _part(lambda moment: moment.isoweekday() % 7))),
    function("getHours", *_of_both("hours", _part(lambda moment: moment.hour), 3600 * NANOS)),
    function("getMinutes", *_of_both("minutes", _part(lambda moment: moment.minute), 60 * NANOS)),
    function("getSeconds", *_of_both("seconds", _part(lambda moment: moment.second), NANOS)),
    function("getMilliseconds", *_of_both("milliseconds", _milliseconds, 1_000_000)),
)
