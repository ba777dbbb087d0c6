"""The API server for a driver under test: an own one that observes and can delay every request, or an existing
cluster, for which such checks are skipped.

The driver gets exactly the permissions that DRA needs: writing slices, and reading claims and nodes.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from dray.api.types.core import Namespace, Node, ServiceAccount
from dray.api.types.rbac import ClusterRole, ClusterRoleBinding
from dray.api.users import ADMIN
from dray.api.wire import Tree
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.security.certificates import Keys
from dray.apiserver.wire.serving import HttpServer, ServingTls, listen
from dray.client import Client, InProcess

AsgiMessage = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[AsgiMessage]]
AsgiSend = Callable[[AsgiMessage], Awaitable[None]]

NODE = "driver-test"
_NAME = "driver-under-test"
_HOST = "127.0.0.1"
RULES: list[Tree] = [
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceslices"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
]


@dataclass(frozen=True)
class KitRefusal:
    """A request of the driver that the API server refused.

    `status` is the HTTP status.
    """

    method: str
    path: str
    status: int
    message: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}: {self.status} {self.message}"


@dataclass
class Traffic:
    """Requests of the driver to the API server: refused ones, the number of writes, and delays."""

    refusals: list[KitRefusal] = field(default_factory=list)
    writes: int = 0
    _held: dict[str, asyncio.Event] = field(default_factory=dict)
    _arrived: dict[str, asyncio.Event] = field(default_factory=dict)

    @contextmanager
    def holding(self, path_end: str) -> Iterator[asyncio.Event]:
        """Delay requests whose path ends in `path_end` during the block. Yields an event that the first one sets.

        The requests continue at the end of the block.
        """
        self._held[path_end] = asyncio.Event()
        arrived = self._arrived[path_end] = asyncio.Event()
        try:
            yield arrived
        finally:
            self._held.pop(path_end).set()

    async def wait_if_held(self, path: str) -> None:
        for end, released in [*self._held.items()]:
            if path.endswith(end):
                self._arrived[end].set()
                await released.wait()


class _Observer:
    """ASGI application that records and delays requests before passing them to the API server."""

    def __init__(self, app: Callable[..., Awaitable[None]], traffic: Traffic) -> None:
        self._app = app
        self._traffic = traffic

    async def __call__(self, scope: AsgiMessage, receive: AsgiReceive, send: AsgiSend) -> None:
        await self._traffic.wait_if_held(scope["path"])
        status, body = 0, b""

        async def observed(message: AsgiMessage) -> None:
            nonlocal status, body
            status = message.get("status", status)
            if status >= 400:
                body += message.get("body", b"")
            await send(message)

        await self._app(scope, receive, observed)
        if scope["method"] not in ("GET", "HEAD"):
            self._traffic.writes += 1
        if status >= 400:
            self._traffic.refusals.append(KitRefusal(scope["method"], scope["path"], status, _message(body)))


@dataclass
class DriverTestCluster:
    """The cluster in which a driver is tested."""

    client: Client
    node: str
    kubeconfig: Path
    traffic: Traffic | None = None  # the driver's requests, if they can be observed


@asynccontextmanager
async def own_cluster(directory: Path) -> AsyncIterator[DriverTestCluster]:
    """Run an API server in this process, in memory, with TLS and one node, and yield the cluster.

    `directory` receives the keys and the kubeconfig of the driver. The cluster ends with the `with` block.
    """
    keys = Keys.open(directory / "keys")
    sock = listen(_HOST, 0)
    api = await Running.open(ServerSettings(keys=keys))
    client, kubeconfig, traffic = InProcess(api.api, ADMIN), directory / "kubeconfig", Traffic()
    tls = ServingTls(keys.certificate_file, keys.key_file, keys.authority_file)
    server = HttpServer(_Observer(api.http, traffic), sock, tls)
    await server.start()
    try:
        await client.create(Node, {"metadata": {"name": NODE}})
        token = await _account(client)
        kubeconfig.write_text(_kubeconfig(f"https://{_HOST}:{sock.getsockname()[1]}", keys.authority, token))
        yield DriverTestCluster(client, NODE, kubeconfig, traffic)
    finally:
        api.drain()
        await server.stop()
        await api.close()


async def _account(client: Client) -> str:
    """Create a service account with the permissions of a driver. Returns its token.

    The token is valid for a day.
    """
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _NAME}
    subject = {"kind": "ServiceAccount", "name": _NAME, "namespace": _NAME}
    await client.create(Namespace, {"metadata": {"name": _NAME}})
    await client.create(ServiceAccount, {"metadata": {"name": _NAME, "namespace": _NAME}})
    await client.create(ClusterRole, {"metadata": {"name": _NAME}, "rules": RULES})
    await client.create(ClusterRoleBinding, {"metadata": {"name": _NAME}, "roleRef": role, "subjects": [subject]})
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
    answer: Any = await client.create(ServiceAccount, review, namespace=_NAME, name=_NAME, subresource="token")
    return str(answer.status.token)


def _kubeconfig(server: str, authority: bytes, token: str) -> str:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "driver", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "driver"}}],
            "current-context": "test",
        }
    )


def _message(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]
