"""etcd client: several endpoints with fail-over, TLS, user authentication, and translation of errors.

Supports only the requests that a log needs.
"""

import asyncio
import logging
import ssl
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

_ATTEMPT_SECONDS = 2.5  # a member may forward a request to a dead leader and never respond
PATIENCE = 6.0  # seconds until a call fails; longer than one attempt plus an election, which takes up to two seconds
_LOOK_SECONDS = 5.0  # interval of checks whether a certificate file was replaced
_GRACE_SECONDS = 5.0  # time for pending calls on connections with old certificates; no attempt takes longer
_PAUSE_SECONDS = 0.2  # pause after all endpoints have been tried
_HAS_LEADER = (("hasleader", "true"),)  # a member without a leader fails at once and ends its watches
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),  # etcd rejects more than one per 5 seconds
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.use_local_subchannel_pool", 1),
)
_TRANSIENT = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


class ProtobufMessage(Protocol):
    def SerializeToString(self) -> bytes: ...  # protobuf's own name


ResponseType = TypeVar("ResponseType")

RANGE = ("/etcdserverpb.KV/Range", pb.RangeResponse)
PUT = ("/etcdserverpb.KV/Put", pb.PutResponse)
TXN = ("/etcdserverpb.KV/Txn", pb.TxnResponse)
COMPACT = ("/etcdserverpb.KV/Compact", pb.CompactionResponse)
LEASE_GRANT = ("/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantResponse)
LEASE_TTL = ("/etcdserverpb.Lease/LeaseTimeToLive", pb.LeaseTimeToLiveResponse)
_AUTHENTICATE = ("/etcdserverpb.Auth/Authenticate", pb.AuthenticateResponse)
_WATCH = "/etcdserverpb.Watch/Watch"
# These errors have no status code of their own.
_TOKEN_MISSING = ("user name is empty", "revision of auth store is old")


@dataclass(frozen=True)
class EtcdTls:
    """Paths of PEM files: the CA of etcd's certificates, and the client certificate and key if etcd requires them."""

    ca: Path
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> Any:
        """Read the files. Returns gRPC credentials.

        Raises StoreError if a file cannot be read or used, or if only one of certificate and key is given.
        """
        try:
            ca, cert, key = (read_regular(path) if path else None for path in (self.ca, self.cert, self.key))
        except OSError as error:
            raise StoreError(f"cannot read {error.filename}: {error.strerror}") from error
        if (cert is None) != (key is None):
            raise StoreError("etcd: a client certificate needs both cert and key")
        self._check()
        return grpc.ssl_channel_credentials(ca, key, cert)

    def _check(self) -> None:
        """Raise StoreError for certificate files that gRPC would accept but could not connect with."""
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            files = ", ".join(str(path) for path in (self.ca, self.cert, self.key) if path is not None)
            raise StoreError(f"etcd: the certificates {files} cannot be used: {error}") from error

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes when a file is replaced. Raises OSError if a file cannot be examined."""
        found = [path.stat() for path in (self.ca, self.cert, self.key) if path is not None]
        return tuple((file.st_ino, file.st_size, file.st_mtime_ns) for file in found)


@dataclass(frozen=True)
class EtcdUser:
    """Name of an etcd user, and the file with the password in its first line."""

    name: str
    password_file: Path

    def password(self) -> str:
        """Read the password from the first line of its file. Raises StoreError if the file cannot be read."""
        try:
            return read_regular(self.password_file).decode().split("\n", 1)[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"etcd: cannot read the password of {self.name}: {error}") from error


_NO_SPACE_REMEDY = (
    "; it takes no writes until its database is smaller (`etcdctl defrag`) or may be larger (`--quota-backend-bytes`), and "
    "`etcdctl alarm disarm` was called"
)


class EtcdRefused(Unavailable):
    """etcd returned an error that other endpoints would return as well."""

    def __init__(self, code: Any, details: str) -> None:
        remedy = _NO_SPACE_REMEDY if code == grpc.StatusCode.RESOURCE_EXHAUSTED and "space" in details else ""
        super().__init__(f"etcd: {details} ({code.name}){remedy}")
        self.code = code
        self.details = details


class EtcdClient:
    """Client of one etcd cluster; uses one endpoint at a time."""

    def __init__(
        self,
        endpoints: Sequence[str],
        tls: EtcdTls | None = None,
        patience: float = PATIENCE,
        user: EtcdUser | None = None,
    ) -> None:
        self._tls = tls
        self._endpoints = list(endpoints)
        self._channels = self._connected()
        self._stamp = tls.stamp() if tls is not None else ()
        self._retired: set[asyncio.Task[None]] = set()  # tasks that close old channels
        self._looked = time.monotonic()  # time of the last check of the certificate files
        self._patience = patience
        self._user = user
        self._token = ""  # authentication token, which expires
        self._current = 0

    def _connected(self) -> list[Any]:
        credentials = self._tls.credentials() if self._tls is not None else None
        return [_channel(endpoint, credentials) for endpoint in self._endpoints]

    def _look_for_certificates(self) -> None:
        """Reconnect if a certificate file was replaced, because gRPC reads the files only once."""
        if self._tls is None or (now := time.monotonic()) - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        try:
            if (stamp := self._tls.stamp()) == self._stamp:
                return
            old, self._channels = self._channels, self._connected()
        except (OSError, StoreError) as error:  # the file may be in the process of being replaced
            logger.warning("etcd: the certificates that are in use are kept: %s", error)
            return
        self._stamp = stamp
        logger.info("etcd: certificates were replaced; connecting anew")
        for channel in old:
            closing = asyncio.create_task(channel.close(_GRACE_SECONDS))
            self._retired.add(closing)
            closing.add_done_callback(self._retired.discard)

    async def call(self, method: tuple[str, type[ResponseType]], request: ProtobufMessage) -> tuple[ResponseType, bool]:
        """Send a request. Returns the response, and whether an earlier attempt may have been done as well.

        Tries one endpoint after the other. Raises EtcdRefused for an error that other endpoints would return as well,
        or Unavailable if no endpoint responds in time.
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
                return await self._attempt_as_user(chosen, method, request), failure is not None
            except grpc.aio.AioRpcError as error:
                if error.code() not in _TRANSIENT:
                    raise EtcdRefused(error.code(), error.details() or "no details") from error
                failure = error
                self.leave(chosen, error)
        raise Unavailable(f"etcd does not answer at {', '.join(self._endpoints)}: {failure.details()}") from failure

    async def _attempt_as_user(
        self, chosen: int, method: tuple[str, type[ResponseType]], request: ProtobufMessage
    ) -> ResponseType:
        """Make one attempt, and a second one with a new token if etcd rejects the current token."""
        used = self._token
        try:
            return await self._attempt(chosen, method, request)
        except grpc.aio.AioRpcError as error:
            if self._user is None or not _is_about_token(error):
                raise
        if self._token == used:  # otherwise another call has already renewed it
            await self.authenticate(chosen)
        return await self._attempt(chosen, method, request)

    async def authenticate(self, chosen: int | None = None) -> None:
        """Get a token for the user. Raises EtcdRefused if the name or password is wrong."""
        assert self._user is not None
        request = pb.AuthenticateRequest(name=self._user.name, password=self._user.password())
        self._token = ""
        answer = await self._attempt(self._current if chosen is None else chosen, _AUTHENTICATE, request)
        self._token = answer.token

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (*_HAS_LEADER, ("token", self._token)) if self._token else _HAS_LEADER

    async def _attempt(
        self, chosen: int, method: tuple[str, type[ResponseType]], request: ProtobufMessage
    ) -> ResponseType:
        path, answer = method
        self._look_for_certificates()
        call = self._channels[chosen].unary_unary(
            path,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,  # type: ignore[attr-defined]  # every message has it
        )
        result: ResponseType = await call(request, timeout=_ATTEMPT_SECONDS, metadata=self._metadata)
        return result

    def watch(self) -> tuple[int, Any]:
        """Open a watch. Returns the index of its endpoint, and the stream; it ends if the member loses the leader."""
        self._look_for_certificates()
        call = self._channels[self._current].stream_stream(
            _WATCH,
            request_serializer=pb.WatchRequest.SerializeToString,
            response_deserializer=pb.WatchResponse.FromString,
        )
        return self._current, call(metadata=self._metadata)

    def leave(self, chosen: int, error: Any) -> None:
        """Use the next endpoint from now on, unless the current one has changed already."""
        if chosen == self._current and len(self._channels) > 1:
            self._current = (chosen + 1) % len(self._channels)
            logger.info(
                "etcd: from %s to %s: %s", self._endpoints[chosen], self._endpoints[self._current], error.details()
            )

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        for closing in [*self._retired]:
            closing.cancel()
        await asyncio.gather(*self._retired, return_exceptions=True)


def _is_about_token(error: grpc.aio.AioRpcError) -> bool:
    """Return whether etcd reports a missing or invalid token."""
    details = error.details() or ""
    return error.code() == grpc.StatusCode.UNAUTHENTICATED or any(text in details for text in _TOKEN_MISSING)


def _channel(endpoint: str, credentials: Any) -> Any:
    if credentials is None:
        return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
    return grpc.aio.secure_channel(endpoint, credentials, options=_OPTIONS)
