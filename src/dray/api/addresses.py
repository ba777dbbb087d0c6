"""Parsing of IP addresses and networks, and the Kubernetes error messages for invalid ones."""

from __future__ import annotations

import ipaddress

BAD_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
BAD_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address. Returns None if the text is not one."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_network(text: str, strict: bool = False) -> bool:
    """Return whether the text is a network in CIDR notation; with `strict`, without host bits.

    An address without `/` is not a network.
    """
    try:
        ipaddress.ip_network(text, strict=strict)
    except ValueError:
        return False
    return "/" in text
