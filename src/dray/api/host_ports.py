"""Host ports of pods, and conflicts between them. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api.types.core import Container

Port = tuple[str, str, int]  # protocol, address, number


def host_ports(containers: Iterable[Container]) -> Iterator[Port]:
    """Yield the host ports of containers: protocol, address and number. Ports without hostPort are left out.

    A missing protocol is TCP, a missing address 0.0.0.0.
    """
    for container in containers:
        for port in container.ports:
            if port.hostPort:
                yield port.protocol or "TCP", port.hostIP or "0.0.0.0", port.hostPort


def collisions(wanted: Iterable[Port], used: Iterable[Port]) -> Iterator[Port]:
    """Yield the wanted ports that conflict with used ports; 0.0.0.0 conflicts with every address.

    Protocol and number must be equal for a conflict.
    """
    taken = list(used)
    for port in wanted:
        protocol, address, number = port
        if any(protocol == p and number == n and ("0.0.0.0" in (address, a) or address == a) for p, a, n in taken):
            yield port
