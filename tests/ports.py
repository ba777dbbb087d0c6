"""Ports for servers that must be told theirs, or be found at the same place after a kill."""

from __future__ import annotations

import random
import socket

# Below those that Linux gives to connections, at any moment. Each process has an order of its own and repeats nothing,
# so that two servers that have not begun to listen yet do not get the same.
_ports = iter(random.SystemRandom().sample(range(16_384, 32_768), 16_384))


def free_port() -> int:
    """A port that nobody listens at and no connection will take."""
    for port in _ports:
        with socket.socket() as chosen:
            try:
                chosen.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("all ports were tried")
