"""Ranges of cluster addresses: which addresses may be requested, and which free address is chosen.

As in Kubernetes, a random address from the upper part of a range is tried first, so that the lower part stays free
for clients that request a certain address. A range does not know which addresses are in use; callers pass a function
for that.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable
from itertools import chain

from dray.api.service_fields import IPV4, IPV6

_LEAST, _MOST, _SHARE = 16, 256, 16  # addresses at the lower end of a range that are chosen last
_TRIES = 16  # random addresses to try before searching the range in order
_LARGEST = 1 << 20  # maximum number of addresses searched in order
_random = random.SystemRandom()


class TakenAddress(Exception):
    """Error for an address that cannot be allocated. The text gives the reason in Kubernetes' wording."""


class AddressRange:
    """Addresses of one network that hosts may have."""

    def __init__(self, text: str) -> None:
        self._network = ipaddress.ip_network(text)
        self.family = IPV4 if self._network.version == 4 else IPV6
        # Exclude the network's own address, and the broadcast address of IPv4.
        self._first = int(self._network.network_address) + 1
        self._end = int(self._network.broadcast_address) + (self.family == IPV6)
        size = max(self._end - self._first, 0)
        reserved = min(max(_LEAST, size // _SHARE), _MOST)
        self._upper = self._first + (reserved if size > reserved else 0)

    def spans(self, address: str) -> bool:
        """Return whether an address belongs to the network."""
        found = ipaddress.ip_address(address)
        return found.version == self._network.version and found in self._network

    def check(self, address: str) -> None:
        """Raise TakenAddress for an address that no host of the network may have, such as the broadcast address."""
        if not self._first <= int(ipaddress.ip_address(address)) < self._end:
            text = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {self._network}"
            raise TakenAddress(text)

    def free(self, is_taken: Callable[[str], bool]) -> str | None:
        """Return a free address, or None if no address is free."""
        if self._upper < self._end:
            for _ in range(_TRIES):
                if not is_taken(found := self._address(_random.randrange(self._upper, self._end))):
                    return found
        last = min(self._end, self._upper + _LARGEST)
        numbers = chain(range(self._upper, last), range(self._first, self._upper))
        return next((found for found in map(self._address, numbers) if not is_taken(found)), None)

    def _address(self, number: int) -> str:
        return str((ipaddress.IPv4Address if self.family == IPV4 else ipaddress.IPv6Address)(number))


def canonical(address: str) -> str:
    """Return the canonical form of an address, which is the name of its IPAddress object.

    Raises ValueError if the text is no address.
    """
    return str(ipaddress.ip_address(address))
