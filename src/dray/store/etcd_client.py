"""Talking to etcd: channels to several endpoints, fail-over between them, TLS, and errors in our own terms.

Left out: etcd's user names and passwords (client certificates name a user too), and everything that a log does not need.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio

from dray.files import read_regular
from dray.store import etcd_pb2 as pb
from dray.store.errors import StoreError, Unavailable

logger = logging.getLogger(__name__)

_ATTEMPT_SECONDS = 2.5  # a member forwards to a leader that has just died without noticing
PATIENCE = 6.0  # before a call gives up: longer than that and an election, which takes one or two seconds
_PAUSE_SECONDS = 0.2  # after all endpoints have been tried
_HAS_LEADER = (("hasleader", "true"),)  # a member that knows no leader answers so at once, and ends its watches
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),  # etcd refuses more than one in 5 seconds
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
)
_TRANSIENT = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


class ProtobufMessage(Protocol):
    def SerializeToString(self) -> bytes: ...  # protobuf's own name


Answer = TypeVar("Answer")

RANGE = ("/etcdserverpb.KV/Range", pb.RangeResponse)
PUT = ("/etcdserverpb.KV/Put", pb.PutResponse)
TXN = ("/etcdserverpb.KV/Txn", pb.TxnResponse)
COMPACT = ("/etcdserverpb.KV/Compact", pb.CompactionResponse)
LEASE_GRANT = ("/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantResponse)
_WATCH = "/etcdserverpb.Watch/Watch"


@dataclass(frozen=True)
class EtcdTls:
    """Files in PEM form: the authority that signed etcd's certificates, and our own certificate if etcd asks for one."""

    ca: Path
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> Any:
        try:
            ca, cert, key = (read_regular(path) if path else None for path in (self.ca, self.cert, self.key))
        except OSError as error:
            raise StoreError(f"cannot read {error.filename}: {error.strerror}") from error
        if (cert is None) != (key is None):
            raise StoreError("etcd: a client certificate needs both cert and key")
        return grpc.ssl_channel_credentials(ca, key, cert)


class EtcdRefused(Unavailable):
    """etcd answered with an error that another endpoint would repeat."""

    def __init__(self, code: Any, details: str) -> None:
        super().__init__(f"etcd: {details} ({code.name})")
        self.code = code
        self.details = details


class EtcdClient:
    def __init__(self, endpoints: Sequence[str], tls: EtcdTls | None = None, patience: float = PATIENCE) -> None:
        credentials = tls.credentials() if tls is not None else None
        self._endpoints = list(endpoints)
        self._channels = [_channel(endpoint, credentials) for endpoint in endpoints]
        self._patience = patience
        self._current = 0

    async def call(self, method: tuple[str, type[Answer]], request: ProtobufMessage) -> tuple[Answer, bool]:
        """The answer, and whether an earlier attempt may have been carried out as well.

        Tries one endpoint after the other. Raises EtcdRefused, or Unavailable when none answers.
        """
        failure = None
        attempts = 0
        give_up = time.monotonic() + self._patience
        while failure is None or time.monotonic() < give_up:
            if attempts and attempts % len(self._channels) == 0:
                await asyncio.sleep(_PAUSE_SECONDS)
            attempts += 1
            chosen = self._current
            try:
                return await self._attempt(chosen, method, request), failure is not None
            except grpc.aio.AioRpcError as error:
                if error.code() not in _TRANSIENT:
                    raise EtcdRefused(error.code(), error.details() or "no details") from error
                failure = error
                self.leave(chosen, error)
        raise Unavailable(f"etcd does not answer at {', '.join(self._endpoints)}: {failure.details()}") from failure

    async def _attempt(self, chosen: int, method: tuple[str, type[Answer]], request: ProtobufMessage) -> Answer:
        path, answer = method
        call = self._channels[chosen].unary_unary(
            path,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,  # type: ignore[attr-defined]  # every message has it
        )
        result: Answer = await call(request, timeout=_ATTEMPT_SECONDS, metadata=_HAS_LEADER)
        return result

    def watch(self) -> tuple[int, Any]:
        """A new watch stream, and which endpoint it goes to. It ends if that member loses the cluster's leader."""
        call = self._channels[self._current].stream_stream(
            _WATCH,
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString,
        )
        return self._current, call(metadata=_HAS_LEADER)

    def leave(self, chosen: int, error: Any) -> None:
        """Use the next endpoint from now on, unless somebody else has moved on already."""
        if chosen == self._current and len(self._channels) > 1:
            self._current = (chosen + 1) % len(self._channels)
            logger.info(
                "etcd: from %s to %s: %s", self._endpoints[chosen], self._endpoints[self._current], error.details()
            )

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


def _channel(endpoint: str, credentials: Any) -> Any:
    if credentials is None:
        return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
    return grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
