"""Named formats: the Kubernetes checks of names, dates and similar strings, with the same error messages."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable

from dray.api import names
from dray.cel import types
from dray.cel.declarations import function, method, overload
from dray.cel.library.urls import UrlError, parse_url
from dray.cel.prices import VALIDATION
from dray.cel.types import list_of, optional_of
from dray.cel.values import NONE, Format, Optional, Value

_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_BASE64 = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_TIME = re.compile(r"([01][0-9]|2[0-3])(:[0-5][0-9]){2}(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


def _prefix(check: names.NameCheck) -> names.NameCheck:
    """Return a check for a name prefix: like `check`, but the text may end in a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> names.Complaints:
    try:
        parse_url(text)
    except UrlError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    return match is not None and int(match[3]) <= monthrange(int(match[1]), int(match[2]))[1]


def _is_datetime(text: str) -> bool:
    date, *rest = text.lower().split("t")
    return bool(rest) and _is_date(date) and _TIME.fullmatch(rest[0]) is not None


def _plain(complaint: str, holds: Callable[[str], object]) -> names.NameCheck:
    return lambda text: [] if holds(text) else [complaint]


_CHECKS: dict[str, names.NameCheck] = {
    "dns1123Label": names.label,
    "dns1123Subdomain": names.subdomain,
    "dns1035Label": names.label_1035,
    "qualifiedName": names.qualified_name,
    "dns1123LabelPrefix": _prefix(names.label),
    "dns1123SubdomainPrefix": _prefix(names.subdomain),
    "dns1035LabelPrefix": _prefix(names.label_1035),
    "labelValue": names.label_value,
    "uri": _uri,
    "uuid": _plain("does not match the UUID format", _UUID.fullmatch),
    "byte": _plain("invalid base64", _BASE64.fullmatch),
    "date": _plain("invalid date", _is_date),
    "datetime": _plain("invalid datetime", _is_datetime),
}

# Pattern lengths from which Kubernetes computes the cost of a check.
_REGEX_SIZES = {
    "dns1123Label": 30,
    "dns1123Subdomain": 60,
    "dns1035Label": 30,
    "qualifiedName": 60,
    "dns1123LabelPrefix": 30,
    "dns1123SubdomainPrefix": 60,
    "dns1035LabelPrefix": 30,
    "labelValue": 40,
    "uri": 1080,
    "uuid": 70,
    "byte": 84,
    "date": 71,
    "datetime": 71,
}
_FORMATS = {name: Format(name, _REGEX_SIZES[name]) for name in _CHECKS}


def _validate(of: Format, text: str) -> Value:
    complaints = _CHECKS[of.name](text)
    return Optional(complaints) if complaints else NONE


def _named(name: str) -> Value:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def _constant(value: Format) -> Callable[[], Value]:
    return lambda: value


_S, _FORMAT = types.STRING, types.FORMAT

FUNCTIONS = (
    function(
        "validate", method("format-validate", (_FORMAT, _S), optional_of(list_of(_S)), _validate), price=VALIDATION
    ),
    function("format.named", overload("format-named", (_S,), optional_of(_FORMAT), _named)),
    *(
        function(f"format.{name}", overload(f"format.{name}", (), _FORMAT, _constant(value)))
        for name, value in _FORMATS.items()
    ),
)
