"""Sockets of a driver: where they are, how long their paths may be, and who removes them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dray.driver.sockets import PATH_BYTES_MAX, SocketError, Sockets, SocketServer
from tests.driver.places import Places


def test_the_paths_are_those_that_a_node_agent_looks_at() -> None:
    assert Sockets.below(Path("/k"), "d.example.com") == Sockets(
        Path("/k/plugins_registry/d.example.com-reg.sock"), Path("/k/plugins/d.example.com/dra.sock")
    )
    assert Sockets.below(Path("/k"), "d.example.com", "8f1c") == Sockets(
        Path("/k/plugins_registry/d.example.com-8f1c-reg.sock"), Path("/k/plugins/d.example.com/dra-8f1c.sock")
    )
    assert Sockets.below(Path("k"), "d").plugin.is_absolute()


async def test_a_path_that_is_too_long_for_the_kernel_is_bound_through_its_directory(places: Places) -> None:
    path = places.root / ("ä" * 40) / ("x" * 40) / "dra.sock"
    server = SocketServer(path, lambda _: None)
    await server.start()
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"/proc/self/fd/{directory}/dra.sock")
    os.close(directory)
    await server.stop(0)
    assert not path.exists()


async def test_a_longest_path_can_be_bound_and_a_stale_socket_is_replaced(places: Places) -> None:
    path = places.root / ("x" * (PATH_BYTES_MAX - len(str(places.root)) - 1))
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(path))
    stale.close()
    server = SocketServer(path, lambda _: None)
    await server.start()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    await server.stop(0)
    assert not path.exists()


async def test_a_file_in_the_way_is_not_removed(places: Places) -> None:
    path = places.root / "dra.sock"
    path.write_text("mine")
    with pytest.raises(SocketError, match="is not a socket"):
        await SocketServer(path, lambda _: None).start()
    assert path.read_text() == "mine"


async def test_a_directory_that_cannot_be_made_is_named(places: Places) -> None:
    (places.root / "file").write_text("")
    with pytest.raises(SocketError, match=r"file/dra\.sock"):
        await SocketServer(places.root / "file" / "dra.sock", lambda _: None).start()


async def test_the_socket_of_a_successor_is_left_alone(places: Places) -> None:
    path = places.root / "dra.sock"
    old, new = SocketServer(path, lambda _: None), SocketServer(path, lambda _: None)
    await old.start()
    await new.start()
    await old.stop(0)
    assert path.exists()
    await new.stop(0)
    assert not path.exists()
