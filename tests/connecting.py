"""Connections that this process tries to make: all are noted, and none leaves the machine."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def noted_connections() -> Iterator[list[str]]:
    """The addresses that were connected to within the block. One that is not this machine's is refused at once."""
    noted: list[str] = []
    connect = socket.socket.connect

    def note(own: socket.socket, address: Any) -> None:
        if own.family in (socket.AF_INET, socket.AF_INET6):
            noted.append(address[0])
            if not ipaddress.ip_address(address[0]).is_loopback:
                raise ConnectionRefusedError(f"a test tried to connect to {address[0]}")
        connect(own, address)

    with patch.object(socket.socket, "connect", note):
        yield noted
