"""Those who attack: users of a whole server on a socket, and connections that speak as badly as one likes."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from dray.apiserver.security.certificates import Keys
from tests.apiserver.asking import HttpAsker, serving
from tests.apiserver.reading import RBAC

USERS = """\
viewer-token,viewer,1
editor-token,editor,2
roles-token,roles,3
node-token,system:node:n1,4,"system:nodes"
nobody-token,nobody,5
definer-token,definer,6
"""
ROLES = {"viewer": "view", "editor": "edit", "roles": "roles", "definer": "definitions"}
OWN_ROLES = {
    "roles": {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["get", "list", "patch", "update"]},
    "definitions": {"apiGroups": ["*"], "resources": ["customresourcedefinitions", "larges"], "verbs": ["*"]},
}
CONFIG = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DISGUISED = (  # secrets, a stream into a pod and a token, for a viewer who may have none of them
    "/api/v1/namespaces/default/pods/../secrets",
    "/api/v1/namespaces/default/pods/%2e%2e/secrets/db",
    "/api/v1/namespaces/default/pods/..%2fsecrets%2fdb",
    "/api/v1/namespaces/default/configmaps%2f..%2fsecrets",
    "/api/v1/namespaces/default%2fsecrets/db",
    "//api/v1/namespaces/default/secrets",
    "/api//v1/namespaces/default/secrets/db",
    "/api/v1//namespaces/default/secrets/db",
    "/api/v1/namespaces/default//secrets/db",
    "/api/v1/namespaces/default/secrets//db",
    "/api/v1/namespaces/default/secrets/db/",
    "/api/v1/namespaces/default/secrets/db%00",
    "/api/v1/namespaces/default/secrets/db;x=pods",
    "/api/v1/namespaces/default/SECRETS/db",
    "/API/v1/namespaces/default/secrets/db",
    "/api/v1/watch/namespaces/default/secrets/db",
    "/api/v1/watch/watch/namespaces/default/secrets/db",
    "/api/v1/namespaces/default/secrets?watch=1",
    "/healthz/../api/v1/namespaces/default/secrets/db",
    "/healthz%2f..%2fapi%2fv1%2fnamespaces%2fdefault%2fsecrets%2fdb",
    "/dashboard/../api/v1/namespaces/default/secrets/db",
    "/openapi/v2/../../api/v1/namespaces/default/secrets/db",
    "/api/v1/namespaces/default/pods/p%2fexec?command=ls&stdout=1",
    "/api/v1/namespaces/default/pods/p/exec/?command=ls&stdout=1",
    "/api/v1/namespaces/default/pods/p/EXEC?command=ls&stdout=1",
    "/api/v1/namespaces/default/pods/p/log/../exec?command=ls&stdout=1",
    "/api/v1/namespaces/default/serviceaccounts/default/token/",
    "/api/v1/nodes/n1/proxy/containerLogs/default/p/c",
    "/api/v1/nodes/n1%2fproxy%2fmetrics",
)


class Attacked:
    """A server with users: `admin` mends what the others break."""

    def __init__(self, admin: HttpAsker, keys: Keys) -> None:
        self.admin = admin
        self._keys = keys

    def user(self, name: str) -> HttpAsker:
        return HttpAsker(self.admin.url, self.admin.session, self.admin.running, f"{name}-token")

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection over TLS on which nothing has been said, and which takes little that is not read."""
        context = ssl.create_default_context(cafile=str(self._keys.authority_file))
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        address = ("127.0.0.1", int(self.admin.url.rpartition(":")[2]))
        await asyncio.get_running_loop().sock_connect(sock, address)
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=context, server_hostname="localhost", limit=1 << 16
        )
        try:
            yield reader, writer
        finally:
            writer.transport.abort()  # type: ignore[attr-defined]  # a socket's transport can


@asynccontextmanager
async def attacked(keys: Keys, directory: Path, **settings: Any) -> AsyncIterator[Attacked]:
    """A server with a viewer, an editor, a node, and those who may patch cluster roles or write definitions."""
    users = directory / "users.csv"
    users.write_text(USERS)
    async with serving(keys, token_file=users, **settings) as admin:
        for name, rule in OWN_ROLES.items():
            await posted(admin, f"/apis/{RBAC}/v1/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
        for user, role in ROLES.items():
            binding = {
                "metadata": {"name": user},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
            }
            await posted(admin, f"/apis/{RBAC}/v1/clusterrolebindings", binding)
        await posted(admin, "/api/v1/nodes", {"metadata": {"name": "n1"}})
        yield Attacked(admin, keys)


async def posted(asker: HttpAsker, path: str, tree: dict[str, Any]) -> dict[str, Any]:
    code, body = await asker("POST", path, json.dumps(tree), content_type="application/json")
    assert code == 201, body
    assert isinstance(body, dict)
    return body


def head(method: str, path: str, user: str = "", **headers: object) -> bytes:
    """The head of a request, as a user or as nobody."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
    if user:
        lines.append(f"authorization: Bearer {user}-token")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


class Stall:
    """The longest turn of this event loop, in seconds of its thread's processor time."""

    longest = 0.0


@contextmanager
def uncollected() -> Iterator[None]:
    """Within this no garbage is collected: how long that takes depends on what other tests have left."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


@asynccontextmanager
async def measured() -> AsyncIterator[Stall]:
    """Measure the turns of the event loop, of the server and of the test alike; collections are nobody's turn."""
    stall = Stall()

    async def turn() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            stall.longest = max(stall.longest, now - before)
            before = now

    with uncollected():
        task = asyncio.create_task(turn())
        await asyncio.sleep(0)
        try:
            yield stall
            await asyncio.sleep(0)  # the last turn counts, too
        finally:
            task.cancel()


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What the server says until it closes the connection."""
    try:
        return await reader.read(-1)
    except (ConnectionError, ssl.SSLError):
        return b""
