"""Serving a gRPC service with an object whose coroutines have the names of its methods.

The generated code does the same for one version of a service. Here one object may serve several, since their messages
are the same.
"""

from __future__ import annotations

from typing import Any

import grpc.aio
from google.protobuf.message_factory import GetMessageClass


def add_service(server: grpc.aio.Server, service: Any, servicer: object) -> None:
    """Serve a service, given by its descriptor."""
    handlers = {
        method.name: grpc.unary_unary_rpc_method_handler(
            getattr(servicer, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
        for method in service.methods
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
