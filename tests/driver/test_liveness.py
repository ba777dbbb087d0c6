"""Health probes of a driver's pod, asked as node agents ask them."""

from __future__ import annotations

from dray.api.types.core import Container, GRPCAction, Probe
from dray.client import SystemClock
from dray.driver import liveness
from dray.node.fake import FakeRuntime
from dray.node.handlers import Handlers
from dray.node.runtime import ContainerKey


async def test_a_driver_works_once_the_node_agent_has_accepted_it() -> None:
    accepted = False
    handlers = Handlers(FakeRuntime(), SystemClock())
    async with liveness.serving(0, lambda: accepted) as port:
        probe = Probe(grpc=GRPCAction(port=port))
        first = await handlers.act(probe, Container(name="c"), ContainerKey("p", "c", 0), "127.0.0.1", 30)
        assert (first.ok, first.text) == (False, 'service unhealthy (responded with "NOT_SERVING")')
        accepted = True
        assert (await handlers.act(probe, Container(name="c"), ContainerKey("p", "c", 0), "127.0.0.1", 30)).ok
    refused = await handlers.act(probe, Container(name="c"), ContainerKey("p", "c", 0), "127.0.0.1", 1)
    assert not refused.ok
