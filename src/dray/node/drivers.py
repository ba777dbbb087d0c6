"""Connection to one registered driver: the gRPC calls that a node makes and the state of the connection.

Both versions of the gRPC interface have the same messages, so callers need not know which version a driver speaks.
Left out: how drivers are found (`plugins`), when they are called and how failures are handled (`claims`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

import grpc
import grpc.aio

from dray.node.checkpoint import CheckpointedDevice
from dray.node.metrics import OPERATIONS
from dray.rpc import HEALTH_SERVICES, PLUGIN_PACKAGE, PLUGIN_SERVICES, dra_v1_pb2, health_pb2
from dray.rpc.services import stub

DEADLINE_SECONDS = 45.0  # timeout of a prepare or unprepare call, as in the kubelet
ANSWER_BYTES = 64 << 10  # per claim, which has 32 devices at most; all of this goes into the status of its pods
ERROR_CHARACTERS = 4096
V1, V1BETA1 = PLUGIN_SERVICES
# Go servers refuse the authority that gRPC derives from a socket's path. A channel must not become idle, or the loss
# of a driver would go unnoticed. A driver that restarts should be noticed soon.
CHANNEL_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
    ("grpc.use_local_subchannel_pool", 1),
)
_SOCKET_PATH_BYTES = 107  # the kernel's limit
_directories: dict[str, int] = {}


class ClaimId(NamedTuple):
    """Namespace, name and uid of a claim, as sent to drivers."""

    namespace: str
    name: str
    uid: str


class DriverError(Exception):
    """A call to a driver failed as a whole, not only for one claim."""

    def __init__(self, message: str, *, not_found: bool = False, unimplemented: bool = False) -> None:
        super().__init__(message)
        self.not_found = not_found
        self.unimplemented = unimplemented


Prepared = tuple[CheckpointedDevice, ...]


def open_channel(socket: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"unix:{_short(socket)}", options=CHANNEL_OPTIONS)


def _short(socket: str) -> str:
    """Return a path of the socket within the kernel's length limit.

    A long path goes through a descriptor of its directory. A driver in a container sees a shorter path than the host
    has. Raises `DriverError` if the socket's name is too long.
    """
    if len(socket.encode()) <= _SOCKET_PATH_BYTES:
        return socket
    parent, name = os.path.split(socket)
    try:
        short = f"/proc/self/fd/{_opened(parent)}/{name}"
    except OSError as error:
        raise DriverError(f"socket {socket}: {error}") from error
    if len(short.encode()) > _SOCKET_PATH_BYTES:
        raise DriverError(f"socket {socket}: the name has too many bytes")
    return short


def _opened(directory: str) -> int:
    """Return a descriptor of a directory, which is opened again only if the path leads to another directory by now.

    The descriptor stays open, because channels reconnect again and again. Raises OSError if the directory is missing.
    """
    known = _directories.get(directory)
    if known is None or not os.path.samestat(os.fstat(known), os.stat(directory)):
        _directories[directory] = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return _directories[directory]


class DriverConnection:
    """A gRPC connection to one instance of a driver."""

    def __init__(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        self.name = name
        self.endpoint = endpoint
        self.version = V1 if V1 in versions else V1BETA1
        self.health_service = next((service for service in HEALTH_SERVICES if service in versions), "")
        self.connected = False
        self._channel = open_channel(endpoint)
        self._service = f"{PLUGIN_PACKAGE}.{self.version}"
        self._stub = stub(self._channel, dra_v1_pb2, self._service)

    async def aclose(self) -> None:
        await self._channel.close()

    async def follow_connection(self, told: Callable[[bool], None]) -> None:
        """Call `told` with True or False when the connection is made or lost. Reconnects; runs until cancelled."""
        state = self._channel.get_state(try_to_connect=True)
        while True:
            self.connected = state is grpc.ChannelConnectivity.READY
            told(self.connected)
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state(try_to_connect=True)

    async def prepare(self, claims: Sequence[ClaimId]) -> dict[str, Prepared | str]:
        """Prepare claims. Returns by claim uid the devices, or the error as text.

        A claim that the driver's answer leaves out counts as failed. Raises `DriverError` if the call itself fails.
        """
        request = dra_v1_pb2.NodePrepareResourcesRequest(claims=_claims(claims))
        answer = await self._call("NodePrepareResources", request)
        return {claim.uid: self._outcome(answer, claim.uid) for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimId]) -> dict[str, str]:
        """Unprepare claims. Returns by claim uid the error, "" on success. Raises `DriverError` if the call fails.

        A claim that the answer leaves out has an error too.
        """
        request = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=_claims(claims))
        answer = await self._call("NodeUnprepareResources", request)
        return {
            claim.uid: _shortened(answer.claims[claim.uid].error)
            if claim.uid in answer.claims
            else _left_out(self.name)
            for claim in claims
        }

    async def watch_health(self) -> AsyncIterator[list[Any]]:
        """Yield the health of the driver's devices as a list of DeviceHealth messages each time the driver sends one.

        Raises `DriverError` if the stream fails.
        """
        health = stub(self._channel, health_pb2, self.health_service)
        call = health.NodeWatchResources(health_pb2.NodeWatchResourcesRequest())
        try:
            async for answer in call:
                yield list(answer.devices)
        except grpc.aio.AioRpcError as error:
            raise DriverError(_text(error), unimplemented=error.code() is grpc.StatusCode.UNIMPLEMENTED) from error
        finally:
            call.cancel()

    def _outcome(self, answer: Any, uid: str) -> Prepared | str:
        if uid not in answer.claims:
            return _left_out(self.name)
        share = answer.claims[uid]
        if share.error:
            return _shortened(share.error)
        if share.ByteSize() > ANSWER_BYTES:
            return f"expected at most {ANSWER_BYTES} bytes about the claim, got {share.ByteSize()}"
        return tuple(
            CheckpointedDevice(tuple(d.request_names), d.pool_name, d.device_name, tuple(d.cdi_device_ids), d.share_id)
            for d in share.devices
        )

    async def _call(self, method: str, request: Any) -> Any:
        begun, code = time.perf_counter(), grpc.StatusCode.OK
        try:
            return await getattr(self._stub, method)(request, timeout=DEADLINE_SECONDS)
        except grpc.aio.AioRpcError as error:
            code = error.code()
            raise DriverError(
                f"DRA driver {self.name}: {method}: {_text(error)}", not_found=code is grpc.StatusCode.NOT_FOUND
            ) from error
        except (grpc.aio.UsageError, asyncio.CancelledError) as error:
            code = grpc.StatusCode.CANCELLED
            if _is_cancelled(error):
                raise
            raise DriverError(f"DRA driver {self.name}: {method}: the driver disconnected") from error
        finally:
            OPERATIONS.labels(self.name, f"/{self._service}/{method}", _code_name(code)).observe(
                time.perf_counter() - begun
            )


def _claims(claims: Sequence[ClaimId]) -> list[dra_v1_pb2.Claim]:
    return [dra_v1_pb2.Claim(namespace=c.namespace, uid=c.uid, name=c.name) for c in claims]


def _code_name(code: grpc.StatusCode) -> str:
    """Return the name of a status code as Go writes it and dashboards expect it: `Unavailable`, `DeadlineExceeded`."""
    names = {grpc.StatusCode.OK: "OK", grpc.StatusCode.CANCELLED: "Canceled"}
    return names.get(code) or code.name.title().replace("_", "")


def _is_cancelled(error: BaseException) -> bool:
    """Whether a cancellation is meant for the calling task; closing a channel also cancels its calls.

    Returns False for any exception other than CancelledError.
    """
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _shortened(text: str) -> str:
    return text if len(text) <= ERROR_CHARACTERS else text[:ERROR_CHARACTERS] + "…"


def _left_out(driver: str) -> str:
    return f"DRA driver {driver} did not answer for the claim"


def _text(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {_shortened(error.details() or '')}"
