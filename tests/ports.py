"""Ports for servers that must be told theirs, or be found at the same place after a kill."""

from __future__ import annotations

import random
import socket

_BELOW_CONNECTIONS = range(16_384, 32_768)  # Linux gives connections higher ones, at any moment


def free_port() -> int:
    """A port that nobody listens at and no connection will take."""
    while True:
        port = random.choice(_BELOW_CONNECTIONS)
        with socket.socket() as chosen:
            try:
                chosen.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
