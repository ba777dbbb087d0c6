"""Text of table cells: ages, labels, selectors and lists of containers.

Durations are formatted as in Kubernetes: with two units while the smaller one matters, otherwise with one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.api.types import core, meta

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
_SHOWN = 3
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def duration(seconds: float) -> str:
    """Return a duration in seconds as text, in the format of kubectl.

    >>> [duration(s) for s in (-5, 90, 130, 3700, 30000, 90000 * 2, 86400 * 9, 86400 * 800)]
    ['<invalid>', '90s', '2m10s', '61m', '8h', '2d2h', '9d', '2y70d']
    """
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 2 * _MINUTE:
        return f"{max(total, 0)}s"
    if total < 10 * _MINUTE:
        return _two(total, _MINUTE, "m", 1, "s")
    if total < 3 * _HOUR:
        return f"{total // _MINUTE}m"
    if total < 8 * _HOUR:
        return _two(total, _HOUR, "h", _MINUTE, "m")
    if total < 2 * _DAY:
        return f"{total // _HOUR}h"
    if total < 8 * _DAY:
        return _two(total, _DAY, "d", _HOUR, "h")
    if total < 2 * _YEAR:
        return f"{total // _DAY}d"
    if total < 8 * _YEAR:
        return _two(total, _YEAR, "y", _DAY, "d")
    return f"{total // _YEAR}y"


def _two(total: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = total % large // small
    return f"{total // large}{large_name}" + (f"{rest}{small_name}" if rest else "")


def seconds(timestamp: str) -> float:
    """Return the seconds since 1970 of an RFC 3339 timestamp; 0 if it is invalid."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def age(timestamp: str | None, now: float) -> str:
    """Return the time since a timestamp as text, or `<unknown>` if it is missing or invalid.

    `now` is in seconds since 1970.
    """
    since = seconds(timestamp) if timestamp else 0.0
    return duration(now - since) if since else UNKNOWN


def labels(values: Mapping[str, str]) -> str:
    """Return labels as `key=value` pairs sorted by key and separated by commas, or `<none>` if there are none."""
    return ",".join(f"{key}={values[key]}" for key in sorted(values)) or NONE


def selector(value: meta.LabelSelector | None) -> str:
    """Return a label selector in the text form of `kubectl get -l`, or `<none>` if it is None or empty."""
    if value is None:
        return NONE
    terms = [(key, f"{key}={text}") for key, text in value.matchLabels.items()]
    terms += [(r.key, _requirement(r)) for r in value.matchExpressions]
    return ",".join(term for _, term in sorted(terms)) or NONE


def _requirement(requirement: meta.LabelSelectorRequirement) -> str:
    values = ",".join(sorted(requirement.values))
    forms = {"In": f"{requirement.key} in ({values})", "NotIn": f"{requirement.key} notin ({values})"}
    forms |= {"Exists": requirement.key, "DoesNotExist": f"!{requirement.key}"}
    return forms.get(requirement.operator, requirement.key)


def container_names(containers: Iterable[core.Container]) -> str:
    return ",".join(container.name for container in containers)


def images(containers: Iterable[core.Container]) -> str:
    return ",".join(container.image for container in containers)


def some(items: Sequence[str]) -> str:
    """Return the first three items, separated by commas, and the number of further items.

    For example `a,b,c + 2 more...`; empty if there are no items.
    """
    more = f" + {len(items) - _SHOWN} more..." if len(items) > _SHOWN else ""
    return ",".join(items[:_SHOWN]) + more
