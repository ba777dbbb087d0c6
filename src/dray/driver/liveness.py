"""Health endpoint of a driver for probes of its pod: gRPC's health protocol on a port.

A driver is healthy once the node agent has accepted it. Two instances that overlap in a rolling update may listen on
the same port; the instance that gets a probe answers for itself. Left out: the health of devices (`plugin`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from dray.rpc.services import start_server

SERVICE = "grpc.health.v1.Health"
# HealthCheckResponse, whose only field is the status: 1 is SERVING, 2 is NOT_SERVING.
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"


@asynccontextmanager
async def serving(port: int, works: Callable[[], bool]) -> AsyncIterator[int]:
    """Answer health probes on all addresses while the `with` block runs. Yields the port.

    With port 0 the system chooses the port. `works` is called for each probe and returns whether the driver is
    healthy.
    """

    async def check(request: bytes, context: Any) -> bytes:
        return _SERVING if works() else _NOT_SERVING

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(check)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Check": handler}),))
    taken = server.add_insecure_port(f"[::]:{port}")
    await start_server(server)
    try:
        yield taken
    finally:
        await server.stop(0)
