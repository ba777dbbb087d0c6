"""A dashboard on a socket, mounted into a real API server, and a browser without a window that looks at it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from dray.api.gates import FeatureGates
from dray.api.types.core import Node
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.users import ADMIN
from dray.api.wire import Tree
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.security.certificates import Keys
from dray.apiserver.wire.serving import HttpServer, listen
from dray.assembly import ServerOptions
from dray.assembly.dashboard import Mounted, mount
from dray.client import Client, InProcess
from dray.web.picture import DashboardPicture
from tests import objects
from tests.waiting import within

DRIVER, CLASS = "gpu.example.com", "gpu"
USERS = "jane-token,jane,1\nadmin-token,admin,2,system:masters\n"


class Served:
    """A server with its dashboard. `client` is the administrator's."""

    def __init__(self, running: Running, mounted: Mounted, port: int) -> None:
        self.running = running
        self.mounted = mounted
        self.port = port
        self.origin = f"http://127.0.0.1:{port}"
        self.client: Client = InProcess(running.api, ADMIN)

    def code(self) -> str:
        return self.mounted.address("").partition("#code=")[2]

    def picture(self) -> DashboardPicture:
        """The one picture that is kept."""
        dashboard = self.mounted._dashboard
        assert dashboard is not None
        [(picture, _)] = dashboard._pictures.values()
        return picture


@asynccontextmanager
async def served(directory: Path, keys: Keys, port: int = 0, gates: str = "") -> AsyncIterator[Served]:
    users = directory / "users.csv"
    users.write_text(USERS)
    running = await Running.open(ServerSettings(keys=keys, token_file=users, gates=FeatureGates.parse(gates)))
    sock = listen("127.0.0.1", port)
    mounted = mount(running, ServerOptions(dir=directory))
    keeping = asyncio.ensure_future(mounted.run())
    server = HttpServer(running.http, sock, None)
    await server.start()
    try:
        yield Served(running, mounted, sock.getsockname()[1])
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        running.drain()
        await server.stop()
        await running.close()
        sock.close()


class Browser:
    """Asks as a page does: with a cookie, an origin and JSON."""

    def __init__(self, session: aiohttp.ClientSession, origin: str) -> None:
        self.session = session
        self.origin = origin
        self.base = f"{origin}/dashboard/"

    async def post(self, path: str, tree: Any, **headers: str) -> tuple[int, Any]:
        async with self.session.post(self.base + path, json=tree, headers={"Origin": self.origin, **headers}) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.session.get(self.base + path, headers=headers) as answer:
            return answer.status, await answer.json()

    async def ask(self, kind: str, /, **question: Any) -> Any:
        status, tree = await self.post(f"api/ask/{kind}", question)
        assert status == 200, tree
        return tree

    async def refused(self, kind: str, /, **question: Any) -> tuple[int, str, str]:
        """Status, code and field of a question that is not answered."""
        status, tree = await self.post(f"api/ask/{kind}", question)
        return status, tree["error"]["code"], tree["error"]["field"]

    async def sign_in(self, **offer: str) -> Any:
        status, tree = await self.post("api/session", offer)
        assert status == 200, tree
        return tree

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Mirror]:
        """An open page, which has its first picture."""
        async with self.session.get(f"{self.base}api/stream", timeout=aiohttp.ClientTimeout(total=None)) as answer:
            assert answer.status == 200, await answer.text()
            mirror = Mirror(answer)
            await within(mirror.until(lambda: mirror.is_ready))
            yield mirror


@asynccontextmanager
async def browser(origin: str) -> AsyncIterator[Browser]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield Browser(session, origin)


class Mirror:
    """What a page knows: all rows, put together from messages as the page does it."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self._rest = b""
        self.hello: Tree = {}
        self.is_ready = False
        self.bye = ""
        self.rights: Tree = {}
        self.samples: list[Tree] = []
        self.strings: list[str] = []
        self.tables: dict[str, dict[int, Tree]] = {}
        self.largest = 0  # rows of one message
        self.bytes = 0

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Read until something is so; what the condition gives then."""
        while not (found := condition()):
            await self.read()
        return found

    async def wait(self, condition: Callable[[], Any]) -> Any:
        return await within(self.until(condition))

    async def read(self) -> None:
        chunk = await self._answer.content.readany()
        assert chunk or self.bye, "the stream ended without a word"
        if not chunk:
            raise EOFError
        self.bytes += len(chunk)
        *messages, self._rest = (self._rest + chunk).split(b"\n\n")
        for message in messages:
            lines = dict(line.split(b": ", 1) for line in message.split(b"\n") if not line.startswith(b":"))
            if b"event" in lines:
                self._take(lines[b"event"].decode(), json.loads(lines[b"data"]))

    def _take(self, name: str, data: Tree) -> None:
        match name:
            case "hello":
                self.hello, self.strings, self.tables, self.is_ready = data, data["strings"], {}, False
            case "rows":
                self._rows(data)
            case "ready":
                self.is_ready = True
            case "bye":
                self.bye = data["code"]
            case "rights":
                self.rights = data["resources"]
            case "sample":
                self.samples.append(data)

    def _rows(self, data: Tree) -> None:
        for number, text in enumerate(data["strings"], data["first"]):
            self.strings[number : number + 1] = [text]
        for name, changes in data.items():
            if isinstance(changes, dict):
                table = self.tables.setdefault(name, {})
                columns = changes.get("set", {})
                rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
                self.largest = max(self.largest, len(rows))
                table.update({row["id"]: row for row in rows})
                for gone in changes.get("gone", ()):
                    table.pop(gone, None)

    # What a person would look for

    def row(self, table: str, name: str) -> Tree | None:
        interned = table == "devices"
        for row in self.tables.get(table, {}).values():
            if (self.strings[row["name"]] if interned else row["name"]) == name:
                return row
        return None

    def state(self, device: str) -> str:
        row = self.row("devices", device)
        return self.hello["states"]["device"][row["state"]] if row else ""

    def states(self) -> list[str]:
        """The states of all devices."""
        return [self.hello["states"]["device"][row["state"]] for row in self.tables["devices"].values()]

    def claim_state(self, claim: str) -> str:
        row = self.row("claims", claim)
        return self.strings[row["state"]] if row else ""


# Objects


def device(name: str, **more: Any) -> Tree:
    return {"name": name, "attributes": {"model": {"string": "a100"}}, **more}


def slice_tree(node: str, *devices: Tree, name: str = "", slices: int = 1, **spec: Any) -> Tree:
    return objects.resource_slice(
        name or f"{node}-slice", node=node, driver=DRIVER, count=slices, **{"devices": list(devices), **spec}
    )


async def publish(client: Client, node: str, *devices: Tree, **more: Any) -> None:
    """A node with devices, and the class that they are of."""
    labels = {"topology.kubernetes.io/zone": "z1", "example.com/rack": "r7"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8", "pods": "110"}}
    await client.create(Node, {"metadata": {"name": node, "labels": labels}, "status": ready})
    await client.create(ResourceSlice, slice_tree(node, *devices, **more))
    if not [one for one in (await client.list(DeviceClass)).items if one.metadata.name == CLASS]:
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        await client.create(DeviceClass, {"metadata": {"name": CLASS}, "spec": {"selectors": [selector]}})


async def allocate(
    client: Client,
    claim: str,
    node: str,
    device: str,
    *,
    namespace: str = "default",
    reserved: bool = True,
    **result: Any,
) -> None:
    """A claim that has a device, made and written as the scheduler would."""
    await client.create(ResourceClaim, objects.claim(claim, device_class=CLASS), namespace=namespace)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": node, "device": device} | result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    users = [{"resource": "pods", "name": f"user-of-{claim}", "uid": f"uid-{claim}"}] if reserved else []
    status = {"allocation": allocation, "reservedFor": users}
    await client.patch(ResourceClaim, claim, {"status": status}, namespace, subresource="status")
