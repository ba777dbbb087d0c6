"""Serves and calls the gRPC services of this package.

Each .proto file has one service, so a module of messages identifies it. protoc would generate a stub and a servicer
for each service; these functions do the same for all services, and under any name, since versions of a service differ
only in their name.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc.aio
from google.protobuf.message_factory import GetMessageClass


def add_service(server: grpc.aio.Server, messages: Any, servicer: object, *names: str) -> None:
    """Serve the service that a module of messages defines, under its own name or the given names.

    The servicer's coroutines have the names of the methods. A missing method is answered as unimplemented.
    """
    service = _service(messages)
    handlers = {
        method.name: _handler(method, getattr(servicer, method.name))
        for method in service.methods
        if hasattr(servicer, method.name)
    }
    for name in names or (service.full_name,):
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))


async def start_server(server: grpc.aio.Server) -> None:
    """Start a server. If the caller is cancelled meanwhile, let the start finish and stop the server.

    gRPC breaks when its start is interrupted: the server keeps running and cannot be stopped. A server that still
    runs when its event loop is closed blocks the process for ever once the last channel is freed.
    """
    starting = asyncio.ensure_future(server.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await starting
        await server.stop(0)
        raise


def stub(channel: grpc.aio.Channel, messages: Any, name: str = "") -> Any:
    """Return an object with a method for each call of the service that a module of messages defines.

    `name` is the service's name in calls, if it differs from the module's.
    """
    service = _service(messages)
    calls = {
        method.name: _call(channel, f"/{name or service.full_name}/{method.name}", method) for method in service.methods
    }
    return SimpleNamespace(**calls)


def _service(messages: Any) -> Any:
    (service,) = messages.DESCRIPTOR.services_by_name.values()
    return service


def _handler(method: Any, behaviour: Any) -> Any:
    handler = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
    return handler(
        behaviour,
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=GetMessageClass(method.output_type).SerializeToString,
    )


def _call(channel: grpc.aio.Channel, path: str, method: Any) -> Any:
    call = channel.unary_stream if method.server_streaming else channel.unary_unary
    return call(
        path,
        request_serializer=GetMessageClass(method.input_type).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
