"""Validation of names: labels, subdomains, identifiers and qualified names, with the error messages of Kubernetes.

Every function returns the error messages for a text; empty if it is valid. The messages do not name the field;
`validation` adds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from dray.api.remembered import remembered

Complaints = Sequence[str]
NameCheck = Callable[[str], Complaints]

CEL_RESERVED = frozenset(  # reserved words of CEL, which cannot be names of variables or fields
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)

# Letters of generated names, as in Kubernetes: no vowels, so that no words form, and no letters that look alike.
GENERATED_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
LABEL_MAX = 63
SUBDOMAIN_MAX = 253
PORT_NAME_MAX = 15

_MATCHED = 4096  # maximum length of a text that is compared with a pattern
_ALPHANUMERIC_ENDS = "and must start and end with an alphanumeric character"
_EMPTY = "must be non-empty"
_BYTES = "bytes"


class _Form:
    """A regular expression with the sentence that explains it."""

    def __init__(self, pattern: str, sentence: str, *examples: str, flags: int = 0, dotted: str = "") -> None:
        self.match = re.compile(pattern, flags | re.ASCII).fullmatch
        shown = " or ".join(f"'{example}', " for example in examples)
        hint = f"e.g. {shown}" if shown else ""
        self.complaint = f"{sentence} ({hint}regex used for validation is '{pattern}')"
        self.dotted = re.compile(dotted).fullmatch if dotted else None

    def explained(self, text: str) -> str:
        """Return the error message for a text that does not match."""
        return "must not contain dots" if self.dotted is not None and self.dotted(text) else self.complaint

    def check(self, text: str, limit: int, unit: str = "characters") -> list[str]:
        """Return the error messages about length and form. A matching text is ASCII, so its characters are its bytes.

        The form of a very long text is not checked. `limit` is in bytes; `unit` is only for the message.
        """
        if len(text) > _MATCHED:  # far above any limit, and matching time grows with the length
            return _at_most(text, limit, unit)
        if self.match(text):
            return [] if len(text) <= limit else _at_most(text, limit, unit)
        return [*_at_most(text, limit, unit), self.explained(text)]


_LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_PATTERN = rf"{_LABEL_PATTERN}(\.{_LABEL_PATTERN})*"
_LABEL = _Form(
    _LABEL_PATTERN,
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALPHANUMERIC_ENDS}",
    "my-name",
    "123-abc",
    dotted=_SUBDOMAIN_PATTERN,
)
_SUBDOMAIN = _Form(
    _SUBDOMAIN_PATTERN,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    f"'-' or '.', {_ALPHANUMERIC_ENDS}",
    "example.com",
)
_WILDCARD_SUBDOMAIN = _Form(
    rf"\*\.{_SUBDOMAIN_PATTERN}",
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower "
    "case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    "*.example.com",
)
_CASELESS_SUBDOMAIN = _Form(
    _SUBDOMAIN_PATTERN,
    f"an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', {_ALPHANUMERIC_ENDS}",
    "Example.com",
    flags=re.IGNORECASE,
)
_LABEL_1035 = _Form(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
_C_IDENTIFIER = _Form(
    "[A-Za-z_][A-Za-z0-9_]*",
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'",
    "my_name",
    "MY_NAME",
    "MyName",
)
_QUALIFIED = _Form(
    "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC_ENDS}",
    "MyName",
    "my.name",
    "123-abc",
)
_LABEL_VALUE = _Form(
    "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    f"{_ALPHANUMERIC_ENDS}",
    "MyValue",
    "my_value",
    "12345",
)
_ENV_NAME = re.compile("[ -<>-~]+")
_CONFIG_KEY = _Form(
    "[-._a-zA-Z0-9]+",
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "key.name",
    "KEY_NAME",
    "key-name",
)


def _at_most(text: str, limit: int, unit: str = "characters") -> list[str]:
    """Return the error if the text has more bytes than the limit; older messages say characters."""
    return [f"must be no more than {limit} {unit}"] if len(text.encode()) > limit else []


_remembered = remembered(1024)


@_remembered
def label(text: str) -> Complaints:
    """Return the errors if the text is not a DNS label: names of containers, requests and devices."""
    return _LABEL.check(text, LABEL_MAX)


def subdomain(text: str) -> Complaints:
    """Return the errors if the text is not a DNS subdomain: the names of most objects."""
    return _SUBDOMAIN.check(text, SUBDOMAIN_MAX)


def wildcard_subdomain(text: str) -> Complaints:
    """Return the errors if the text is not a DNS subdomain after `*.`, like `*.example.com`."""
    return _WILDCARD_SUBDOMAIN.check(text, SUBDOMAIN_MAX)


def long_name(text: str) -> Complaints:
    """Return the errors if the text is not a DNS subdomain, with the messages of the schema format `k8s-long-name`."""
    return _SUBDOMAIN.check(text, SUBDOMAIN_MAX, _BYTES)


@_remembered
def short_name(text: str) -> Complaints:
    """Return the errors if the text is not a DNS label, with the messages of the schema format `k8s-short-name`."""
    return _LABEL.check(text, LABEL_MAX, _BYTES)


subdomain_reference = _remembered(subdomain)
"""Like `subdomain`, but cached: for references to nodes and pools, which recur."""


@_remembered
def caseless_subdomain(text: str) -> Complaints:
    """Return the errors if the text is not a DNS subdomain in upper or lower case: references to drivers."""
    return _CASELESS_SUBDOMAIN.check(text, SUBDOMAIN_MAX, _BYTES)


def label_1035(text: str) -> Complaints:
    """Return the errors if the text is not a DNS label that starts with a letter: names of Services."""
    return _LABEL_1035.check(text, LABEL_MAX)


def c_identifier(text: str) -> Complaints:
    """Return the errors if the text is not a C identifier: names of attributes and capacities."""
    return [] if _C_IDENTIFIER.match(text) else [_C_IDENTIFIER.complaint]


def label_value(text: str) -> Complaints:
    return _LABEL_VALUE.check(text, LABEL_MAX, _BYTES)


@_remembered
def qualified_name(text: str) -> Complaints:
    """Return the errors if the text is not a name with an optional domain and slash: label keys, finalizers."""
    parts = text.split("/")
    if len(parts) > 2:
        hint = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a qualified name {_QUALIFIED.complaint}{hint}"]
    found: list[str] = []
    if len(parts) == 2:
        found = [f"prefix part {_EMPTY}"] if not parts[0] else [f"prefix part {text}" for text in long_name(parts[0])]
    name = parts[-1]
    complaints = _QUALIFIED.check(name, LABEL_MAX, _BYTES) if name else [_EMPTY, _QUALIFIED.complaint]
    return found + [f"name part {text}" for text in complaints] if complaints else found


def config_key(text: str) -> Complaints:
    """Return the errors if the text is not a key of a ConfigMap or Secret, which becomes a file name."""
    found = _CONFIG_KEY.check(text, SUBDOMAIN_MAX)
    if text in (".", ".."):
        found.append(f"must not be '{text}'")
    elif text.startswith(".."):
        found.append("must not start with '..'")
    return found


def env_name(text: str) -> Complaints:
    """Return the errors if the text is not the name of an environment variable."""
    if not text:
        return [f"environment variable name {_EMPTY}"]
    if _ENV_NAME.fullmatch(text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def port_name(text: str) -> Complaints:
    found = _at_most(text, PORT_NAME_MAX)
    if not re.fullmatch("[-a-z0-9]+", text):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        found.append("must contain at least one letter (a-z)")
    if "--" in text:
        found.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def port_number(number: int) -> Complaints:
    return [] if 1 <= number <= 65535 else ["must be between 1 and 65535, inclusive"]


def path_segment(text: str) -> Complaints:
    """Return the errors if the text does not fit into a URL path: names of roles and bindings."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]


def prefixed(check: NameCheck, text: str) -> Complaints:
    """Return the errors of `check` for the beginning of a name, which may end in a dash."""
    masked = f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text
    return check(masked)


_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def is_owned_finalizer(finalizer: str) -> bool:
    """Return whether a finalizer is a standard one or contains a slash, as names with a domain do."""
    return "/" in finalizer or finalizer in _STANDARD_FINALIZERS
