"""Formats of strings, by their names in the Kubernetes schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from dray.api import names
from dray.api.addresses import BAD_IP, address_of
from dray.api.errors import FieldError, invalid, required, too_long, unsupported
from dray.api.paths import Path
from dray.api.quantity import Quantity
from dray.api.remembered import remembered

FormatCheck = Callable[[str, Path], Iterator[FieldError]]

DRIVER_MAX = 63
POOL_MAX = 253
IDENTIFIER_MAX = 32
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_DOMAIN_AND_NAME = "a fully qualified name must be a domain and a name separated by a slash"


def _named(check: names.NameCheck) -> FormatCheck:
    def faults(text: str, path: Path) -> Iterator[FieldError]:
        for complaint in check(text):
            yield invalid(path, text, complaint)

    return faults


def _joined(prefix: str, case: Callable[[str], str]) -> FormatCheck:
    """Return a DNS-1035 label as a format whose violations are one error."""

    def faults(text: str, path: Path) -> Iterator[FieldError]:
        if complaints := names.label_1035(case(text)):
            yield invalid(path, text, prefix + ",".join(complaints))

    return faults


def uuid(text: str, path: Path) -> Iterator[FieldError]:
    """Yield an error if the text is not a lowercase UUID."""
    if not _UUID.fullmatch(text):
        yield invalid(path, text, "must be a lowercase UUID in 8-4-4-4-12 format")


def pool(text: str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the text is not a pool name as used in references: subdomains separated by slashes."""
    yield from at_most_bytes(text, POOL_MAX, path)
    for index, part in enumerate(text.split("/")):
        for complaint in names.subdomain_reference(part) if part else ["must not be empty"]:
            yield invalid(path, part or text, f"segment {index}: {complaint}")


def identifier(text: str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the text is not a C identifier of at most IDENTIFIER_MAX bytes."""
    yield from at_most_bytes(text, IDENTIFIER_MAX, path)
    for complaint in names.c_identifier(text):
        yield invalid(path, text, complaint)


def fully_qualified(text: str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the text is not the name of an attribute with the domain of its driver."""
    domain, slash, name = text.partition("/")
    if "/" in name:
        yield invalid(path, text, "must not contain more than one slash")
    elif not slash:
        yield from identifier(text, path)
        yield invalid(path, text, _DOMAIN_AND_NAME)
    else:
        if domain:
            yield from at_most_bytes(domain, DRIVER_MAX, path)
            for complaint in names.subdomain(domain):
                yield invalid(path, domain, f"prefix: {complaint}")
        else:
            yield invalid(path, "", "prefix must not be empty")
        if name:
            yield from identifier(name, path)
        else:
            yield invalid(path, "", "name must not be empty")


def extended_resource(text: str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the text is not the name of an extended resource, like `example.com/gpu`."""
    if "/" not in text:
        yield invalid(path, text, "a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in text:
        yield invalid(path, text, 'must not have "kubernetes.io/" domain')
    if text.startswith("requests."):
        yield invalid(path, text, 'must not have "requests." prefix')
    for complaint in names.qualified_name(f"requests.{text}"):
        yield invalid(path, text, complaint)


def at_most_bytes(text: str, limit: int, path: Path) -> Iterator[FieldError]:
    if len(text.encode()) > limit:
        yield too_long(path, limit)


def port(value: int | str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the value is not a valid number or name of a container port."""
    for complaint in names.port_number(value) if isinstance(value, int) else names.port_name(value):
        yield invalid(path, value, complaint)


def trimmed(text: str, path: Path) -> Iterator[FieldError]:
    """Yield an error if the text has leading or trailing whitespace."""
    if text.strip() != text:
        yield invalid(path, text, "must not have leading or trailing whitespace")


def lowered_subdomain(text: str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the text, in lower case, is not a DNS subdomain."""
    for complaint in names.subdomain(text.lower()):
        yield invalid(path, text.lower(), complaint)


def host(text: str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the text is neither a host name nor a wildcard like `*.example.com`."""
    for complaint in names.wildcard_subdomain(text) if "*" in text else names.subdomain(text):
        yield invalid(path, text, complaint)


def provisioner(text: str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the text, in lower case, is not a qualified name."""
    for complaint in names.qualified_name(text.lower()):
        yield invalid(path, text.lower(), complaint)


def address(text: str, path: Path) -> Iterator[FieldError]:
    """Yield an error if the text is not an IP address."""
    if address_of(text) is None:
        yield invalid(path, text, BAD_IP)


def not_address(text: str, path: Path) -> Iterator[FieldError]:
    """Yield an error if the text is an IP address."""
    if address_of(text) is not None:
        yield invalid(path, text, "must be a DNS name, not an IP address")


def condition_reason(text: str, path: Path) -> Iterator[FieldError]:
    """Yield an error if the text is not a valid reason of a condition."""
    if not re.fullmatch(_REASON, text):
        complaint = (
            "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
            "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  "
            f"or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
        )
        yield invalid(path, text, complaint)


def preemption_policy(text: str, path: Path) -> Iterator[FieldError]:
    """Yield an error if the text is missing or not a preemption policy."""
    if not text:
        yield required(path)
    elif text not in PREEMPTION_POLICIES:
        yield unsupported(path, text, PREEMPTION_POLICIES)


def without_backsteps(text: str, path: Path) -> Iterator[FieldError]:
    """Yield an error if a part of the path is `..`."""
    if ".." in text.split("/"):
        yield invalid(path, text, "must not contain '..'")


def descending(text: str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the text is not a relative path without `..`."""
    if text.startswith("/"):
        yield invalid(path, text, "must be a relative path")
    yield from without_backsteps(text, path)


def volume_path(text: str, path: Path) -> Iterator[FieldError]:
    """Yield errors if the text is not a relative path without `..`, or starts with two dots, which the node reserves."""
    yield from descending(text, path)
    if text.startswith("..") and not text.startswith("../"):
        yield invalid(path, text, "must not start with '..'")


def positive(text: str, path: Path) -> Iterator[FieldError]:
    """Yield an error if the quantity is not above zero."""
    if Quantity.parse(text).sign <= 0:
        yield invalid(path, text, "must be positive")


def amount(text: str, path: Path) -> Iterator[FieldError]:
    """Yield an error if the quantity is negative."""
    if Quantity.parse(text).sign < 0:
        yield invalid(path, text, "must be greater than or equal to 0")


FORMATS: Mapping[str, FormatCheck] = {
    "amount": amount,
    "trimmed": trimmed,
    # Formats that Kubernetes checks in code have names of their own here, and other messages for lengths.
    "ip": address,
    "not-ip": not_address,
    "label-1035": _named(names.label_1035),
    "joined-label-1035": _joined("", str),
    "mixed-label-1035": _joined("may have mixed case, but should otherwise match: ", str.lower),
    "label-value": _named(names.label_value),
    "lowered-subdomain": lowered_subdomain,
    "path-segment": _named(names.path_segment),
    "provisioner": provisioner,
    "subdomain-or-all": _named(lambda text: () if text == "*" else names.subdomain(text)),
    "host": host,
    "no-backsteps": without_backsteps,
    "volume-path": volume_path,
    "condition-reason": condition_reason,
    "preemption-policy": preemption_policy,
    "positive": positive,
    "config-key": _named(names.config_key),
    "env-name": _named(names.env_name),
    "label": _named(names.label),
    "port": port,
    "qualified-name": _named(names.qualified_name),
    "subdomain": _named(names.subdomain),
    "k8s-extended-resource-name": extended_resource,
    "k8s-label-key": _named(names.qualified_name),
    "k8s-long-name": _named(names.long_name),
    "k8s-long-name-caseless": _named(names.caseless_subdomain),
    "k8s-path-segment-name": _named(names.path_segment),
    "k8s-resource-fully-qualified-name": fully_qualified,
    "k8s-resource-pool-name": pool,
    "k8s-short-name": _named(names.short_name),
    "k8s-uuid": uuid,
}


@cache
def is_format(name: str) -> Callable[[str], bool]:
    """Return a function that says whether a text has a format. Its results are cached, because the same texts recur."""
    check, nowhere = FORMATS[name], Path("")
    if name == "port":  # port numbers are not strings, and checking them is fast without a cache
        return lambda value: next(check(value, nowhere), None) is None
    return remembered(1024)(lambda text: next(check(text, nowhere), None) is None)
