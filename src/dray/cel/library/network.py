"""Functions for IP addresses and CIDR networks. IPv6 zones and IPv4-mapped IPv6 addresses are rejected."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from dray.api.quoting import quote
from dray.cel import types
from dray.cel.declarations import function, method, overload, succeeds
from dray.cel.errors import EvaluationError
from dray.cel.prices import ADDRESS_CONTAINMENT, CANONICAL, NETWORK_CONTAINMENT, PARSING
from dray.cel.values import Value

_IPV4_PART = re.compile(r"[0-9]*\Z")
Address = IPv4Address | IPv6Address
CidrValue = IPv4Interface | IPv6Interface


class _NotAnAddress(ValueError):
    pass


def _parse_address(text: str) -> Address:
    """Parse an IP address. Raises _NotAnAddress with the reason."""
    call = f"ParseAddr({quote(text)})"
    mark = next((char for char in text if char in ".:%"), "")
    if mark == ".":
        _check_ipv4(text, call)
        return IPv4Address(text)
    if mark == ":":
        try:
            return IPv6Address(text)
        except AddressValueError as error:
            raise _NotAnAddress(f"{call}: {_ipv6_complaint(text)}") from error
    raise _NotAnAddress(f"{call}: missing IPv6 address" if mark else f"{call}: unable to parse IP")


def _check_ipv4(text: str, call: str) -> None:
    parts = text.split(".")
    for position, part in enumerate(parts):
        if not _IPV4_PART.match(part):
            at = re.search(r"[^0-9.]", text)
            rest = text[at.start() :] if at else part
            raise _NotAnAddress(f"{call}: unexpected character (at {quote(rest)})")
        if not part:
            rest = text[len(".".join(parts[:position])) :]
            raise _NotAnAddress(f"{call}: IPv4 field must have at least one digit (at {quote(rest)})")
        if len(part) > 1 and part[0] == "0":
            raise _NotAnAddress(f"{call}: IPv4 field has octet with leading zero")
        if int(part) > 255:
            raise _NotAnAddress(f"{call}: IPv4 field has value >255")
    if len(parts) != 4:
        raise _NotAnAddress(f"{call}: IPv4 address too {'short' if len(parts) < 4 else 'long'}")


def _ipv6_complaint(text: str) -> str:
    bad = re.search(r"[^0-9a-fA-F:.]", text)
    if bad:
        return f"unexpected character, want colon (at {quote(text[bad.start() :])})"
    if text.count("::") > 1 or ":::" in text:
        second = text.index("::", text.index("::") + 1)
        return f"multiple :: in address (at {quote(text[second:])})"
    if any(len(part) > 4 for part in text.split(":") if "." not in part):
        return f"each group must have 4 or less digits (at {quote(text)})"
    return "address string too short" if text.count(":") < 7 else f"trailing garbage after address (at {quote(text)})"


def ip(text: str) -> Address:
    """Evaluate `ip(text)`: parse an IP address. Raises EvaluationError if it is invalid.

    Zones and IPv4-mapped IPv6 addresses are invalid.
    """
    try:
        address = _parse_address(text)
    except _NotAnAddress as error:
        complaint = f"IP Address {quote(text)} parse error during conversion from string: {error}"
        raise EvaluationError(complaint) from error
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return address


def _is_canonical(text: str) -> Value:
    return str(ip(text)) == text


def _is_link_local_multicast(address: Address) -> Value:
    if isinstance(address, IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(address: Address) -> Value:
    broadcast = isinstance(address, IPv4Address) and address == IPv4Address("255.255.255.255")
    return not (
        broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or _is_link_local(address)
    )


def _is_link_local(address: Address) -> bool:
    return bool(address.is_link_local)


def cidr(text: str) -> CidrValue:
    """Evaluate `cidr(text)`: parse a network in CIDR notation. Raises EvaluationError if it is invalid."""
    try:
        return _parse_network(text)
    except ValueError as error:
        raise EvaluationError(f"network address parse error during conversion from string: {error}") from error


def _parse_network(text: str) -> CidrValue:
    call = f"network address parse error during conversion from string: netip.ParsePrefix({quote(text)})"
    address_text, slash, bits = text.rpartition("/")
    if not slash:
        raise ValueError(f"{call}: no '/'")
    try:
        address = _parse_address(address_text)
    except _NotAnAddress as error:
        raise ValueError(f"{call}: {error}") from error
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise ValueError(f"{call}: IPv6 zones cannot be present in a prefix")
    if not re.fullmatch(r"0|[1-9][0-9]{0,2}", bits):
        raise ValueError(f"{call}: bad bits after slash: {quote(bits)}")
    if int(bits) > address.max_prefixlen:
        raise ValueError(f"{call}: prefix length out of range")
    if isinstance(address, IPv4Address):
        return IPv4Interface((address, int(bits)))
    if address.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IPv6Interface((address, int(bits)))


def _contains_ip(network: CidrValue, address: Address) -> Value:
    return network.version == address.version and address in network.network


def _contains_cidr(network: CidrValue, other: CidrValue) -> Value:
    if network.version != other.version or network.network.prefixlen > other.network.prefixlen:
        return False
    return other.ip in network.network


_S, _IP, _CIDR, _BOOL = types.STRING, types.IP, types.CIDR, types.BOOL

FUNCTIONS = (
    function("ip", overload("string_to_ip", (_S,), _IP, ip, price=PARSING)),
    function("family", method("ip_family", (_IP,), types.INT, lambda address: address.version)),
    function("ip.isCanonical", overload("ip_is_canonical", (_S,), _BOOL, _is_canonical), price=CANONICAL),
    function("isUnspecified", method("ip_is_unspecified", (_IP,), _BOOL, lambda address: address.is_unspecified)),
    function("isLoopback", method("ip_is_loopback", (_IP,), _BOOL, lambda address: address.is_loopback)),
    function("isLinkLocalMulticast", method("ip_is_link_local_multicast", (_IP,), _BOOL, _is_link_local_multicast)),
    function("isLinkLocalUnicast", method("ip_is_link_local_unicast", (_IP,), _BOOL, _is_link_local)),
    function("isGlobalUnicast", method("ip_is_global_unicast", (_IP,), _BOOL, _is_global_unicast)),
    function("isIP", overload("is_ip", (_S,), _BOOL, succeeds(ip)), price=PARSING),
    function("string", overload("ip_to_string", (_IP,), _S, str)),
    function("cidr", overload("string_to_cidr", (_S,), _CIDR, cidr), price=PARSING),
    function(
        "containsIP",
        method("cidr_contains_ip_string", (_CIDR, _S), _BOOL, lambda net, text: _contains_ip(net, ip(text))),
        method("cidr_contains_ip_ip", (_CIDR, _IP), _BOOL, _contains_ip),
        price=ADDRESS_CONTAINMENT,
    ),
    function(
        "containsCIDR",
        method("cidr_contains_cidr_string", (_CIDR, _S), _BOOL, lambda net, text: _contains_cidr(net, cidr(text))),
        method("cidr_contains_cidr", (_CIDR, _CIDR), _BOOL, _contains_cidr),
        price=NETWORK_CONTAINMENT,
    ),
    function("ip", method("cidr_ip", (_CIDR,), _IP, lambda network: network.ip)),
    function("prefixLength", method("cidr_prefix_length", (_CIDR,), types.INT, lambda net: net.network.prefixlen)),
    function(
        "masked",
        method(
            "cidr_masked", (_CIDR,), _CIDR, lambda net: type(net)((net.network.network_address, net.network.prefixlen))
        ),
    ),
    function("isCIDR", overload("is_cidr", (_S,), _BOOL, succeeds(cidr)), price=PARSING),
    function("string", overload("cidr_to_string", (_CIDR,), _S, str)),
)
