"""String formats in schemas of custom resources. Unknown formats are not checked, as in Kubernetes."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from urllib.parse import urlsplit
from uuid import UUID

from dray.api import names

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|0")
_WORDS = re.compile(r"\d+ ?(ns|us|ms|s|sec|secs|seconds?|m|min|mins|minutes?|h|hr|hours?|d|days?|w|wk|weeks?)")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_CARD = re.compile(r"(\d[ -]?){12,18}\d")
_SSN = re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}")
_COLOR = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_RGB = re.compile(r"rgb\(\s*(\d{1,3}%?\s*,\s*){2}\d{1,3}%?\s*\)")
_MAC = re.compile(r"([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2})")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, OverflowError, binascii.Error):
            return False
        return True

    return check


def _time(text: str) -> datetime:
    """Parse an RFC 3339 time. Raises ValueError if the text is invalid."""
    if not _TIME.fullmatch(text):
        raise ValueError(text)
    return datetime.fromisoformat(text.upper())


def _uri(text: str) -> None:
    if not urlsplit(text).scheme and not text.startswith("/"):
        raise ValueError(text)


def _version(number: int) -> Callable[[str], bool]:
    return _parses(lambda text: _version_of(text, number))


def _version_of(text: str, number: int) -> None:
    if UUID(text).version != number:
        raise ValueError(text)


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _named(check: names.NameCheck) -> Callable[[str], bool]:
    return lambda text: not check(text)


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(re.compile("[0-9a-fA-F]{24}")),
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "cidr": _parses(lambda text: ipaddress.ip_network(text, strict=False) if "/" in text else int(text)),
    "creditcard": _matches(_CARD),
    "date": _parses(date.fromisoformat),
    "date-time": _parses(_time),
    "datetime": _parses(_time),
    "duration": lambda text: bool(_DURATION.fullmatch(text) or _WORDS.fullmatch(text)),
    "email": _matches(_EMAIL),
    "hexcolor": _matches(_COLOR),
    "hostname": _named(names.subdomain),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "isbn": _matches(re.compile(r"(97[89])?[- \d]{9,16}[\dX]")),
    "k8s-long-name": _named(names.subdomain),
    "k8s-short-name": _named(names.label),
    "mac": _matches(_MAC),
    "rgbcolor": _matches(_RGB),
    "ssn": _matches(_SSN),
    "uri": _parses(_uri),
    "uuid": _matches(_UUID),
    "uuid3": _version(3),
    "uuid4": _version(4),
    "uuid5": _version(5),
}


def is_format(format_: str, text: str) -> bool:
    """Return whether a text has a format; True for unknown formats."""
    check = _FORMATS.get(format_)
    return check is None or check(text)
