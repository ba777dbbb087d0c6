"""Connections that do not come about: what is said of them, whoever raised the error."""

from __future__ import annotations

import errno

import pytest

from dray.node.dialling import not_connected


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "connection refused"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "network is unreachable"),
        (OverflowError("port must be 0-65535."), "port must be 0-65535."),
    ],
)
def test_what_failed_is_told_without_numbers_of_errors(error: Exception, text: str) -> None:
    assert not_connected("127.0.0.1:1", error) == f"dial tcp 127.0.0.1:1: connect: {text}"


def test_nobody_answered_in_time() -> None:
    assert not_connected("127.0.0.1:1", TimeoutError()) == "dial tcp 127.0.0.1:1: i/o timeout"
