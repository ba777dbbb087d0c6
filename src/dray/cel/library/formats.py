"""Named formats: the checks that Kubernetes makes of names and the like, with the same complaints."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator

from dray.cel import types
from dray.cel.declarations import function, method, overload
from dray.cel.library.times import parse_timestamp
from dray.cel.library.urls import UrlError, parse_url
from dray.cel.types import list_of, optional_of
from dray.cel.values import NONE, Format, Optional, Value

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z")
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\Z", re.ASCII)

_LABEL_COMPLAINT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_COMPLAINT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS1035_COMPLAINT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_QUALIFIED_COMPLAINT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_LABEL_VALUE_COMPLAINT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)

Check = Callable[[str], list[str]]


def _with_examples(complaint: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}'," for example in examples)
    return f"{complaint} (e.g. {shown} regex used for validation is '{pattern}')"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def _pattern(pattern: str, limit: int, complaint: str, *examples: str, prefix: bool = False) -> Check:
    """A check by regular expression and length; as a prefix, a name may still end in a dash."""
    regex = re.compile(pattern + r"\Z")

    def check(text: str) -> list[str]:
        name = re.sub("-+$", "a", text) if prefix and len(text) > 1 else text
        complaints = [] if len(name.encode()) <= limit else [_too_long(limit)]
        if not regex.match(name):
            complaints.append(_with_examples(complaint, pattern, *examples))
        return complaints

    return check


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        return [_with_examples("a qualified name must consist of alphanumeric characters, '-', '_' or '.'", _QUALIFIED)]
    return list(_qualified_complaints(parts))


def _qualified_complaints(parts: list[str]) -> Iterator[str]:
    if len(parts) == 2:
        if not parts[0]:
            yield "prefix part must be non-empty"
        else:
            yield from (f"prefix part {complaint}" for complaint in _CHECKS["dns1123Subdomain"](parts[0]))
    name = parts[-1]
    if not name:
        yield "name part must be non-empty"
    elif len(name) > 63:
        yield f"name part {_too_long(63)}"
    if not re.fullmatch(_QUALIFIED, name):
        yield _with_examples(_QUALIFIED_COMPLAINT, _QUALIFIED, "MyName", "my.name", "123-abc")


def _uri(text: str) -> list[str]:
    try:
        parse_url(text)
    except UrlError as error:
        return [str(error)]
    return []


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _plain(complaint: str, holds: Callable[[str], bool]) -> Check:
    return lambda text: [] if holds(text) else [complaint]


def _label(prefix: bool) -> Check:
    return _pattern(_LABEL, 63, _LABEL_COMPLAINT, "my-name", "123-abc", prefix=prefix)


def _subdomain(prefix: bool) -> Check:
    return _pattern(_SUBDOMAIN, 253, _SUBDOMAIN_COMPLAINT, "example.com", prefix=prefix)


def _dns1035(prefix: bool) -> Check:
    return _pattern(_DNS1035, 63, _DNS1035_COMPLAINT, "my-name", "abc-123", prefix=prefix)


_CHECKS: dict[str, Check] = {
    "dns1123Label": _label(prefix=False),
    "dns1123Subdomain": _subdomain(prefix=False),
    "dns1035Label": _dns1035(prefix=False),
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _label(prefix=True),
    "dns1123SubdomainPrefix": _subdomain(prefix=True),
    "dns1035LabelPrefix": _dns1035(prefix=True),
    "labelValue": _pattern(_LABEL_VALUE, 63, _LABEL_VALUE_COMPLAINT, "MyValue", "my_value", "12345"),
    "uri": _uri,
    "uuid": _plain("does not match the UUID format", lambda text: bool(_UUID.match(text))),
    "byte": _byte,
    "date": _plain("invalid date", lambda text: bool(_DATE.match(text))),
    "datetime": _plain("invalid datetime", lambda text: parse_timestamp(text) is not None),
}

# The lengths of the patterns that Kubernetes computes the cost of a check from.
_REGEX_SIZES = {
    "dns1123Label": 30,
    "dns1123Subdomain": 60,
    "dns1035Label": 30,
    "qualifiedName": 60,
    "dns1123LabelPrefix": 30,
    "dns1123SubdomainPrefix": 60,
    "dns1035LabelPrefix": 30,
    "labelValue": 40,
    "uri": 1120,
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
    function("validate", method("format-validate", (_FORMAT, _S), optional_of(list_of(_S)), _validate)),
    function("format.named", overload("format-named", (_S,), optional_of(_FORMAT), _named)),
    *(
        function(f"format.{name}", overload(f"format.{name}", (), _FORMAT, _constant(value)))
        for name, value in _FORMATS.items()
    ),
)
