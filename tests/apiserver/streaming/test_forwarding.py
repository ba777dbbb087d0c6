"""Port-forward and the way to a node, with a node that is played: places, ports that are none, and ends that are none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dray.api.channels import PORT_FORWARD
from dray.api.errors import BadRequest, TooManyRequests
from dray.api.users import ADMIN
from dray.apiserver.request import Request
from dray.apiserver.streaming.options import PodPortForwardOptions, connect_options
from dray.apiserver.streaming.portforward import check_ports
from dray.apiserver.streaming.relay import _told
from dray.apiserver.streaming.serving import PodStreams, Upgrade
from dray.apiserver.write.subresources import PODS
from tests.apiserver.streaming.test_spdy import Client, Pipe, frames
from tests.waiting import eventually


class Node:
    """A connection to a port that stays open until it is closed."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()

    def __aiter__(self) -> Node:
        return self

    async def __anext__(self) -> Any:
        await self._closed.wait()
        raise StopAsyncIteration

    async def send_bytes(self, data: bytes) -> None: ...

    async def close(self) -> None:
        self._closed.set()


class Waiting(Pipe):
    """A client that says something, and stays until it is sent away."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(*pieces)
        self.gone = asyncio.Event()

    async def read(self) -> bytes:
        if not self.left:
            await self.gone.wait()
        return await super().read()


async def test_every_forwarded_port_takes_a_place_of_its_user() -> None:
    client, taken, dialled = Client(), 0, 0

    @contextmanager
    def place() -> Iterator[None]:
        nonlocal taken
        if taken == 3:
            raise TooManyRequests("too many watches")
        taken += 1
        try:
            yield
        finally:
            taken -= 1

    async def dial(*_: Any) -> Any:
        nonlocal dialled
        dialled += 1
        return Node()

    opened = [
        client.open(2 * number + 1, {"streamType": kind, "port": "80", "requestID": str(number // 2)})
        for number, kind in enumerate(["error", "data"] * 5)
    ]
    pipe = Waiting(*opened)
    upgrade = Upgrade("spdy/3.1", {}, PORT_FORWARD, lambda _: pipe)  # type: ignore[arg-type,return-value]  # a played one
    request = Request(
        user=ADMIN, verb="create", resource=PODS, namespace="default", name="p", subresource="portforward"
    )
    serving = asyncio.create_task(
        PodStreams(dial, lambda *_: "").serve(request, PodPortForwardOptions(), upgrade, place)
    )  # type: ignore[arg-type]
    await eventually(lambda: pipe.written.count(b"too many watches") == 2)
    assert (dialled, taken) == (3, 3)
    assert len(frames(pipe.written)) == 10 + 2 * 3  # a reply for each, and for two pairs what is wrong and two ends
    pipe.gone.set()
    await serving
    assert taken == 0


@pytest.mark.parametrize("value", ["", "0", "65536", "x", "80,", "\u00b2", "99999999999", ",".join(["80"] * 129)])
def test_what_is_no_port_is_refused(value: str) -> None:
    def read() -> None:
        options = connect_options("portforward", [("ports", value)])
        assert isinstance(options, PodPortForwardOptions)
        check_ports(options.ports)

    with pytest.raises(BadRequest):
        read()
    with pytest.raises(BadRequest, match="required"):
        check_ports(())


@pytest.mark.parametrize("told", [b"", b"[]", b"{}", b'{"status":1}', b'{"status":"Failure"}', b'{"message":{}}'])
def test_a_node_that_tells_no_end_has_failed(told: bytes) -> None:
    assert _told(told)["message"] == "the node did not say how it ended"
    assert _told(b'{"status":"Success"}') == {"status": "Success"}
