"""Host ports of pods, and which two cannot be on one node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api.types.core import Container

Port = tuple[str, str, int]  # protocol, address, number


def host_ports(containers: Iterable[Container]) -> Iterator[Port]:
    """The host ports that containers ask for."""
    for container in containers:
        for port in container.ports:
            if port.hostPort:
                yield port.protocol or "TCP", port.hostIP or "0.0.0.0", port.hostPort


def collisions(wanted: Iterable[Port], used: Iterable[Port]) -> Iterator[Port]:
    """The wanted ports that are in use already; 0.0.0.0 is every address."""
    taken = list(used)
    for port in wanted:
        protocol, address, number = port
        if any(protocol == p and number == n and ("0.0.0.0" in (address, a) or address == a) for p, a, n in taken):
            yield port
