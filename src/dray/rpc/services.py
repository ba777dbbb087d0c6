"""The services of this package: serving one with an object, and calling one.

Each .proto file has one service, so a module of messages names it. protoc would generate a stub and a servicer for it;
these functions do the same for all services, and under any name: versions of a service differ in nothing else.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc.aio
from google.protobuf.message_factory import GetMessageClass


def add_service(server: grpc.aio.Server, messages: Any, servicer: object, *names: str) -> None:
    """Serve the service of a module of messages, under its own name or the given ones.

    The coroutines of the servicer have the names of the methods. A method that it lacks is answered as unimplemented.
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

    gRPC breaks when its start is interrupted: the server runs on and cannot be stopped any more. A server that still runs
    when its event loop is closed blocks the process for ever once the last channel is freed.
    """
    starting = asyncio.ensure_future(server.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await starting
        await server.stop(0)
        raise


def stub(channel: grpc.aio.Channel, messages: Any, name: str = "") -> Any:
    """An object that calls the service of a module of messages, under its own name or the given one."""
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
