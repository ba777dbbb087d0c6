"""Cron schedules of five fields: parse a schedule and compute the next time.

Supports numbers, ranges, steps, lists, names of months and weekdays, and descriptors like `@hourly`; `@every`
counts from the last time. As in Kubernetes, a day matches if either of the two day fields matches, unless one of
them is `*`. Time zones in the text are not supported, because CronJobs have a field for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_YEARS_AHEAD = 5  # a schedule without a time in five years, such as 30 February, has none


class ScheduleError(ValueError):
    """The schedule is invalid; the message gives the reason."""


class _Field(msgspec.Struct, frozen=True):
    low: int
    high: int
    names: tuple[str, ...] = ()


_LARGEST_NUMBER = 2**63 - 1
_LONGEST_NUMBER = len(str(_LARGEST_NUMBER))
_FIELDS = (_Field(0, 59), _Field(0, 23), _Field(1, 31), _Field(1, 12, ("", *_MONTHS)), _Field(0, 6, _DAYS))


class Schedule(msgspec.Struct, frozen=True):
    """A parsed schedule: sets of minutes, hours, days, months and weekdays, or a period."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = False  # whether one of the two day fields is `*`
    every: float = 0.0  # seconds

    def after(self, moment: datetime) -> datetime | None:
        """Return the first scheduled time after `moment`, in its time zone; None if none within five years.

        `@every` adds its period, at least one second, to the whole second of `moment`.
        """
        if self.every:
            whole = moment.replace(microsecond=0)
            return whole + timedelta(seconds=max(1, int(self.every)))
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        last = day.year + _YEARS_AHEAD
        while day.year <= last:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._on(day):
                for found in self._moments(day):
                    if found > moment:
                        return found
            day += timedelta(days=1)
        return None

    def _moments(self, day: datetime) -> Iterator[datetime]:
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                yield day.replace(hour=hour, minute=minute)

    def _on(self, day: datetime) -> bool:
        dates = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return all(dates) if self.any_day else any(dates)


def parse(text: str) -> Schedule:
    """Parse a schedule: five fields, a descriptor such as `@hourly`, or `@every` with a duration.

    Raises ScheduleError if the text is invalid.
    """
    text = text.strip()
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith("@every "):
        return Schedule(every=_duration(text.removeprefix("@every ").strip()))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    minutes, hours, days, months, weekdays = map(_values, parts, _FIELDS)
    any_day = any(part[:1] in "*?" for part in (parts[2], parts[4]))
    return Schedule(minutes, hours, days, months, weekdays, any_day)


def _values(text: str, field: _Field) -> frozenset[int]:
    return frozenset(value for part in text.split(",") for value in _range(part, field))


def _range(text: str, field: _Field) -> range:
    span, slash, step_text = text.partition("/")
    low_text, dash, high_text = span.partition("-")
    if low_text in ("*", "?"):
        if dash:
            raise ScheduleError(f"too many hyphens: {text}")
        low, high = field.low, field.high
    else:
        low = _number(low_text, field)
        high = _number(high_text, field) if dash else field.high if slash else low
    step = _integer(step_text) if slash else 1
    _check(text, field, low, high, step)
    return range(low, high + 1, step)


def _check(text: str, field: _Field, low: int, high: int, step: int) -> None:
    """Raise ScheduleError if a range is empty, leaves the bounds of its field, or has the step 0."""
    if low < field.low:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({field.low}): {text}")
    if high > field.high:
        raise ScheduleError(f"end of range ({high}) above maximum ({field.high}): {text}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")


def _number(text: str, field: _Field) -> int:
    """Return the value of a number or of a name such as `mon`. Raises ScheduleError for any other text."""
    if text.lower() in field.names and text:
        return field.names.index(text.lower())
    return _integer(text)


def _integer(text: str) -> int:
    """Parse an ASCII number of at most 64 bits (signed), as Kubernetes does.

    Raises ScheduleError for any other text.
    """
    if not (text.isascii() and text.isdecimal()):
        raise ScheduleError(f"failed to parse int from {text}: it must be a number")
    digits = text.lstrip("0") or "0"
    if len(digits) > _LONGEST_NUMBER or int(digits) > _LARGEST_NUMBER:
        raise ScheduleError(f"failed to parse int from {text}: value out of range")
    return int(digits)


def _duration(text: str) -> float:
    """Return the seconds of a duration such as `1h30m`. Raises ScheduleError if the text is invalid or too long."""
    parts = re.findall(r"([0-9]+(?:\.[0-9]+)?)(ms|h|m|s)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ScheduleError(f"failed to parse duration @every {text}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > _LARGEST_NUMBER / 1e9:  # durations are nanoseconds of 64 bits, about 292 years
        raise ScheduleError(f"failed to parse duration @every {text}: value out of range")
    return seconds
