"""Ranges of cluster addresses: which addresses may be requested, and which free one is chosen.

As in Kubernetes, a random address of the upper part of a range is chosen first, so that the lower part stays free for
those who request an address by number. Left out: who holds an address; a range is told whether one is taken.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable
from itertools import chain

from dray.api.service_fields import IPV4, IPV6

_LEAST, _MOST, _SHARE = 16, 256, 16  # addresses at the lower end of a range that are chosen last
_TRIES = 16  # at random addresses, before all are looked at one by one
_LARGEST = 1 << 20  # addresses of a range that are looked at one by one
_random = random.SystemRandom()


class TakenAddress(Exception):
    """An address cannot be had; the text says why, in Kubernetes' words."""


class AddressRange:
    """The addresses of one network, without those that no host may have."""

    def __init__(self, text: str) -> None:
        self._network = ipaddress.ip_network(text)
        self.family = IPV4 if self._network.version == 4 else IPV6
        # The network's own address is never given out, nor is the broadcast address of IPv4.
        self._first = int(self._network.network_address) + 1
        self._end = int(self._network.broadcast_address) + (self.family == IPV6)
        size = max(self._end - self._first, 0)
        reserved = min(max(_LEAST, size // _SHARE), _MOST)
        self._upper = self._first + (reserved if size > reserved else 0)

    def spans(self, address: str) -> bool:
        found = ipaddress.ip_address(address)
        return found.version == self._network.version and found in self._network

    def check(self, address: str) -> None:
        """Raise TakenAddress for an address of the network that no host may have."""
        if not self._first <= int(ipaddress.ip_address(address)) < self._end:
            text = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {self._network}"
            raise TakenAddress(text)

    def free(self, is_taken: Callable[[str], bool]) -> str | None:
        """A free address, or None if there is none."""
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
    """The form of an address that names its object."""
    return str(ipaddress.ip_address(address))
