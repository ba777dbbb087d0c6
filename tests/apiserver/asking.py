"""Short ways to ask a server for something."""

from __future__ import annotations

import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from dray.api.resources import BY_NAME, Resource
from dray.api.users import ADMIN, User
from dray.api.wire import Tree
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.core import ApiServer
from dray.apiserver.request import Answer, Request, RequestOptions
from dray.apiserver.security.certificates import Keys
from dray.apiserver.wire.serving import HttpServer, ServingTls, listen
from tests import objects
from tests.waiting import SECONDS

CLAIMS = BY_NAME["resource.k8s.io", "resourceclaims"]
CLASSES = BY_NAME["resource.k8s.io", "deviceclasses"]
SLICES = BY_NAME["resource.k8s.io", "resourceslices"]
PODS = BY_NAME["", "pods"]
NAMESPACES = BY_NAME["", "namespaces"]
DEPLOYMENTS = BY_NAME["apps", "deployments"]


def claim(name: str, **metadata: Any) -> Tree:
    return objects.claim(name, objects.request("r0"), metadata=metadata)


def pod(name: str, node: str = "", **metadata: Any) -> Tree:
    return objects.pod(name, node=node, metadata=metadata)


class Asker:
    """Asks a server in the process, as one user, for objects of the namespace `ns`."""

    def __init__(self, server: ApiServer, user: User = ADMIN) -> None:
        self.server = server
        self.user = user

    def request(self, verb: str, resource: Resource, name: str = "", body: Any = None, **options: Any) -> Request:
        fields = {key: options.pop(key) for key in ("version", "subresource", "namespace") if key in options}
        fields.setdefault("namespace", "ns" if resource.namespaced else "")
        return Request(
            user=self.user,
            verb=verb,
            resource=resource,
            name=name,
            body=body,
            options=RequestOptions(**options),
            **fields,
        )

    async def __call__(self, verb: str, resource: Resource, name: str = "", body: Any = None, **options: Any) -> Answer:
        return await self.server.handle(self.request(verb, resource, name, body, **options))

    async def create(self, resource: Resource, body: Tree, **options: Any) -> Any:
        return (await self("create", resource, body=body, **options)).object

    async def get(self, resource: Resource, name: str, **options: Any) -> Any:
        return (await self("get", resource, name, **options)).object

    async def patch(self, resource: Resource, name: str, patch: Any, **options: Any) -> Any:
        return (await self("patch", resource, name, patch, **options)).object

    async def names(self, resource: Resource, **options: Any) -> list[str]:
        answer = await self("list", resource, **options)
        return [item.metadata.name for item in answer.items]  # type: ignore[attr-defined]  # all objects have it


class HttpAsker:
    """Asks a server on a socket, with a token."""

    def __init__(self, url: str, session: aiohttp.ClientSession, running: Running, token: str) -> None:
        self.url = url
        self.session = session
        self.running = running
        self.token = token

    @asynccontextmanager
    async def send(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Headers are given with underscores; `authorization=""` asks without a token."""
        sent = {"authorization": f"Bearer {self.token}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        sent = {name: value for name, value in sent.items() if value}
        if isinstance(body, str | bytes):
            arguments: Tree = {"data": io.BytesIO(body.encode() if isinstance(body, str) else body)}
        else:
            arguments = {"json": body} if body is not None else {}
        async with self.session.request(method, self.url + path, headers=sent, **arguments) as response:
            yield response

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """The code and the JSON of an answer."""
        async with self.send(method, path, body, **headers) as response:
            return response.status, await response.json(content_type=None)

    async def text(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.send("GET", path, **headers) as response:
            return response.status, await response.text()


async def created(asker: HttpAsker, path: str, tree: Tree) -> Tree:
    """What a server makes of a new object."""
    code, body = await asker("POST", path, tree)
    assert code == 201, body
    assert isinstance(body, dict)
    return body


@asynccontextmanager
async def serving(keys: Keys, *, secure: bool = True, **settings: Any) -> AsyncIterator[HttpAsker]:
    """A whole server on a free port of this machine."""
    running = await Running.open(ServerSettings(keys, authenticate=secure, **settings))
    sock = listen("127.0.0.1", 0)
    tls = ServingTls(keys.certificate_file, keys.key_file, keys.authority_file) if secure else None
    server = HttpServer(running.http, sock, tls, settings.get("limits"))
    await server.start()
    context = ssl.create_default_context(cafile=str(keys.authority_file)) if secure else False
    connector = aiohttp.TCPConnector(ssl=context, limit=0)  # it is the server that has limits
    session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(SECONDS))
    try:
        url = f"{'https' if secure else 'http'}://127.0.0.1:{sock.getsockname()[1]}"
        yield HttpAsker(url, session, running, keys.admin_token if secure else "")
    finally:
        await session.close()
        running.drain()
        await server.stop()
        await running.close()
