"""The HTTP client against servers that misbehave; what a good server does is in test_clients."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from dray.api.errors import (
    ApiError,
    Expired,
    InternalError,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
)
from dray.api.types.core import ConfigMap, Namespace
from dray.api.types.resource import DeviceClass
from dray.client import Informer, ManualClock
from dray.client.config import Config, ConfigError
from dray.client.credentials import Fixed
from dray.client.http import Http, HttpRequest
from tests.waiting import within

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, **config: Any) -> AsyncIterator[Http]:
    """A client of a server that answers everything with `handler`."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]  # no public way to ask
    try:
        async with Http(Config(f"http://127.0.0.1:{port}", **config), clock=QuickClock()) as client:
            yield client
    finally:
        await runner.cleanup()


class QuickClock(ManualClock):
    """Sleeping takes no time, and is remembered."""

    slept: list[float]

    def __init__(self) -> None:
        super().__init__()
        self.slept = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def config_map(name: str, version: int) -> dict[str, Any]:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": str(version)}}


def answer(tree: Any, status: int = 200, **headers: str) -> web.Response:
    return web.json_response(tree, status=status, headers=headers)


async def test_later_is_retried_after_the_time_the_server_names() -> None:
    codes = [429, 503, 200]

    async def handler(request: web.Request) -> web.Response:
        code = codes.pop(0)
        assert await request.json() == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        return answer(config_map("a", 1), code, **{"Retry-After": "7"} if code != 200 else {})

    async with serving(handler) as client:
        await client.create(ConfigMap, {"metadata": {"name": "a"}}, namespace="ns")
        assert client._clock.slept == [7.0, 7.0]  # type: ignore[attr-defined]
    assert codes == []


async def test_later_for_ever_is_an_error_in_the_end() -> None:
    calls = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(1)
        return answer({"kind": "Status", "reason": "TooManyRequests"}, 429, **{"Retry-After": "1"})

    async with serving(handler) as client:
        with pytest.raises(TooManyRequests):
            await client.get(Namespace, "a")
    assert len(calls) == 6


async def test_unavailable_without_a_time_is_not_retried() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=503, text="upstream connect error")

    async with serving(handler) as client:
        with pytest.raises(ServiceUnavailable, match="upstream connect error"):
            await client.get(Namespace, "a")
        assert client._clock.slept == []  # type: ignore[attr-defined]


class Rotating(Fixed):
    """Credentials that can be renewed once."""

    tokens = ("old", "new")

    def __init__(self) -> None:
        self._left = [*self.tokens]

    async def header(self) -> str:
        return self._left[0]

    async def renew(self) -> bool:
        if len(self._left) == 1:
            return False
        del self._left[0]
        return True


@pytest.mark.parametrize("accepted", ["new", "none"])
async def test_a_refused_token_is_renewed_once(accepted: str) -> None:
    seen = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        if seen[-1] == accepted:
            return answer({"metadata": {"name": "a"}})
        return answer({"kind": "Status", "reason": "Unauthorized", "code": 401}, 401)

    async with serving(handler, credentials=Rotating()) as client:
        if accepted == "new":
            await client.get(Namespace, "a")
        else:
            with pytest.raises(Unauthorized):
                await client.get(Namespace, "a")
    assert seen == ["old", "new"]


async def test_impersonation_and_user_agent_are_sent() -> None:
    async def handler(request: web.Request) -> web.Response:
        assert request.headers.getall("Impersonate-Group") == ["a", "b"]
        assert request.headers["User-Agent"] == "me"
        return answer({"metadata": {"name": "a"}})

    headers = (("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    async with serving(handler, headers=headers, user_agent="me") as client:
        await client.get(Namespace, "a")


async def test_a_closed_door_is_unavailable() -> None:
    async with Http(Config("http://127.0.0.1:1")) as client:
        with pytest.raises(
            ServiceUnavailable, match=r"GET http://127\.0\.0\.1:1/api/v1/namespaces/a: Connection refused"
        ):
            await client.get(Namespace, "a")


async def test_an_answer_that_breaks_off_is_unavailable() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.close()
        return response

    async with serving(handler) as client:
        with pytest.raises(ServiceUnavailable):
            await client.get(Namespace, "a")


async def test_an_answer_that_is_no_object_is_an_internal_error() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(text="<html>login</html>")

    async with serving(handler) as client:
        with pytest.raises(InternalError, match="not JSON"):
            await client.get(Namespace, "a")


def _paging(pages: list[Any], queries: list[dict[str, str]]) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        queries.append(dict(request.query))
        return pages.pop(0)  # type: ignore[no-any-return]

    return handler


def _page(names: str, continue_: str = "") -> web.Response:
    items = [config_map(name, 1) for name in names]
    return answer({"metadata": {"resourceVersion": "5", "continue": continue_}, "items": items})


async def test_a_whole_list_is_read_in_pages() -> None:
    queries: list[dict[str, str]] = []
    async with serving(_paging([_page("ab", "x"), _page("c")], queries), page_size=2) as client:
        page = await client.list(ConfigMap, "ns", labels="a=b")
    assert [item.metadata.name for item in page.items] == ["a", "b", "c"]
    assert (page.resource_version, page.continue_) == ("5", "")
    assert queries == [
        {"labelSelector": "a=b", "limit": "2"},
        {"labelSelector": "a=b", "limit": "2", "continue": "x"},
    ]


async def test_a_list_whose_pages_expire_is_read_in_one_piece() -> None:
    queries: list[dict[str, str]] = []
    expired = answer({"kind": "Status", "reason": "Expired", "code": 410}, 410)
    async with serving(_paging([_page("a", "x"), expired, _page("abc")], queries), page_size=1) as client:
        page = await client.list(ConfigMap)
    assert len(page.items) == 3
    assert queries[-1] == {}


def _line(type_: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


async def test_events_split_over_packets_are_put_together() -> None:
    data = _line("ADDED", config_map("a", 1)) + _line("MODIFIED", config_map("ü" * 500, 2))

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.query["watch"] == "true"
        assert request.query["timeoutSeconds"] == "2"
        response = web.StreamResponse()
        await response.prepare(request)
        for start in range(0, len(data), 97):
            await response.write(data[start : start + 97])
            await asyncio.sleep(0)
        return response

    async with serving(handler) as client:
        batches = [batch async for batch in client.watch(ConfigMap, timeout=1.5)]
    assert [event.resource_version for batch in batches for event in batch] == ["1", "2"]


async def test_an_error_in_a_watch_comes_after_the_events_before_it() -> None:
    async def handler(request: web.Request) -> web.Response:
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        return web.Response(body=_line("ADDED", config_map("a", 1)) + _line("ERROR", status))

    async with serving(handler) as client:
        watch = client.watch(ConfigMap)
        assert len(await anext(watch)) == 1
        with pytest.raises(Expired):
            await anext(watch)


async def test_a_refused_watch_raises_what_the_answer_says() -> None:
    async def handler(request: web.Request) -> web.Response:
        return answer({"kind": "Status", "reason": "Expired", "code": 410}, 410)

    async with serving(handler) as client:
        with pytest.raises(Expired):
            await anext(client.watch(ConfigMap, resource_version="1"))


async def test_closing_a_watch_closes_its_connection() -> None:
    gone = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(_line("ADDED", config_map("a", 1)))
                await asyncio.sleep(0.01)
        except (ConnectionError, asyncio.CancelledError):
            gone.set()
            raise

    async with serving(handler) as client:
        async with aclosing(client.watch(ConfigMap)) as watch:
            await anext(watch)
        await within(gone.wait())


async def test_an_informer_survives_a_server_that_drops_connections() -> None:
    """Each watch brings one event and is cut in the middle of the next."""
    versions = iter(range(2, 100))
    asked: list[str] = []
    enough = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return _page("a")
        asked.append(request.query["resourceVersion"])
        if len(asked) > 4:
            enough.set()
            await asyncio.sleep(600)
        response = web.StreamResponse()
        await response.prepare(request)
        version = next(versions)
        await response.write(_line("MODIFIED", config_map("a", version)) + b'{"type":"MODI')
        assert request.transport is not None
        request.transport.close()
        return response

    async with serving(handler) as client:
        informer = Informer(client, ConfigMap, clock=QuickClock())
        task = asyncio.create_task(informer.run())
        await within(enough.wait())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert asked == ["5", "2", "3", "4", "5"]


async def test_a_watch_that_is_silent_for_long_begins_again_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.client.http._BOOKMARKED_SECONDS", 0.1)
    asked: list[str] = []
    again = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        asked.append(request.query.get("resourceVersion", "list"))
        if "watch" not in request.query:
            return _page("a")
        response = web.StreamResponse()
        await response.prepare(request)
        if len(asked) == 2:
            await response.write(_line("MODIFIED", config_map("a", 6)))
        else:
            again.set()
        await asyncio.sleep(600)
        return response

    async with serving(handler) as client:
        informer = Informer(client, ConfigMap)
        task = asyncio.create_task(informer.run())
        await within(again.wait())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert asked[:3] == ["list", "5", "6"]


async def test_a_watch_that_is_not_answered_at_all_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dray.client.http._BOOKMARKED_SECONDS", 0.1)

    async def handler(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(600)
        return web.Response()

    async with serving(handler) as client:
        with pytest.raises(ServiceUnavailable):
            await within(anext(client.watch(ConfigMap)))


async def test_the_kernel_asks_whether_the_server_is_still_there() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(600)
        return response

    async with serving(handler) as client, client._request(HttpRequest("GET", "/")) as open_answer:
        assert open_answer.connection is not None
        assert open_answer.connection.transport is not None
        made = open_answer.connection.transport.get_extra_info("socket")
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def _old_cluster(asked: list[str]) -> Handler:
    """Serves device classes in v1beta1 only."""

    async def handler(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path}")
        if request.path == "/apis/resource.k8s.io/v1beta1":
            return answer({"resources": [{"name": "deviceclasses"}]})
        if request.path.startswith("/apis/resource.k8s.io/v1beta1/deviceclasses"):
            tree = await request.json() if request.body_exists else {"metadata": {"name": "a"}}
            return answer({"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", **tree})
        return web.Response(status=404, text="404 page not found")

    return handler


async def test_an_older_cluster_is_spoken_to_in_its_version() -> None:
    asked: list[str] = []
    async with serving(_old_cluster(asked)) as client:
        first = await client.get(DeviceClass, "a")
        await client.create(DeviceClass, {"metadata": {"name": "b"}})
    assert first.apiVersion == "resource.k8s.io/v1"
    assert asked == [
        "GET /apis/resource.k8s.io/v1",
        "GET /apis/resource.k8s.io/v1beta2",
        "GET /apis/resource.k8s.io/v1beta1",
        "GET /apis/resource.k8s.io/v1beta1/deviceclasses/a",
        "POST /apis/resource.k8s.io/v1beta1/deviceclasses",
    ]


async def test_a_cluster_without_the_resource_is_asked_again_next_time() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=404, text="404 page not found")

    async with serving(handler) as client:
        for _ in range(2):
            with pytest.raises(NotFound):
                await client.get(DeviceClass, "a")
    assert asked.count("/apis/resource.k8s.io/v1beta1") == 2


def _discovery(documents: dict[str, Any]) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        if request.path in documents:
            return answer(documents[request.path])
        return web.Response(status=404, text="<html>default backend - 404</html>")

    return handler


def _groups(*versions: str) -> dict[str, Any]:
    return {"groups": [{"name": "resource.k8s.io", "versions": [{"version": version} for version in versions]}]}


def _resources(*names: str) -> dict[str, Any]:
    return {"resources": [{"name": name} for name in names]}


@pytest.mark.parametrize(
    ("documents", "served"),
    [
        ({"/apis": {"groups": []}}, False),
        ({"/apis": _groups("v1alpha3")}, False),
        ({"/apis": _groups("v1"), "/apis/resource.k8s.io/v1": _resources("resourceslices")}, False),
        ({"/apis": _groups("v1beta1"), "/apis/resource.k8s.io/v1beta1": _resources("deviceclasses")}, True),
    ],
)
async def test_discovery_says_whether_a_resource_is_served(documents: dict[str, Any], served: bool) -> None:
    async with serving(_discovery(documents)) as client:
        assert await client.serves(DeviceClass) is served


@pytest.mark.parametrize("documents", [{}, {"/apis": _groups("v1")}, {"/apis": {}, "/api/v1": "hello"}])
@pytest.mark.parametrize("type_", [DeviceClass, ConfigMap])
async def test_discovery_that_is_missing_or_something_else_says_nothing(
    documents: dict[str, Any], type_: type[Any]
) -> None:
    async with serving(_discovery(documents)) as client:
        with pytest.raises(ApiError):
            await client.serves(type_)


async def test_the_log_of_a_pod_comes_as_it_is_written() -> None:
    async def handler(request: web.Request) -> web.Response:
        assert request.path == "/api/v1/namespaces/ns/pods/p/log"
        assert dict(request.query) == {"container": "c", "tailLines": "0"}
        return web.Response(body=b"line\n")

    async with serving(handler) as client:
        assert [chunk async for chunk in client.log("p", "ns", container="c", tail=0)] == [b"line\n"]


def test_certificates_that_are_none_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="certificates for https://h cannot be used"):
        Http(Config("https://h", ca=b"no certificate"))


async def test_a_fence_is_asked_before_each_attempt_to_write_and_never_before_reads() -> None:
    """A server says "later" to the first write; meanwhile the right to write is lost, so it is not sent again."""
    received, asked = [], []

    async def handler(request: web.Request) -> web.Response:
        received.append(request.method)
        return answer(config_map("a", 1), 200 if request.method == "GET" else 429, **{"Retry-After": "7"})

    def fence() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise ServiceUnavailable("lost")

    async with serving(handler) as client, Http(client.config, clock=QuickClock(), fence=fence) as fenced:
        await fenced.get(ConfigMap, "a", "ns")
        with pytest.raises(ServiceUnavailable, match="lost"):
            await fenced.create(ConfigMap, {"metadata": {"name": "a"}}, namespace="ns")
        with pytest.raises(ServiceUnavailable, match="lost"):
            await fenced.delete(ConfigMap, "a", "ns")
        assert (await fenced.get(ConfigMap, "a", "ns")).metadata.name == "a"
    assert [method for method in received if method != "GET"] == ["POST"]
    assert len(asked) == 3


async def test_a_fence_is_asked_after_the_connection_is_made() -> None:
    """Connecting may take so long that the right to write is lost meanwhile."""
    received = []

    async def handler(request: web.Request) -> web.Response:
        received.append(request.method)
        return answer(config_map("a", 1))

    def fence() -> None:
        raise ServiceUnavailable("lost")

    async with serving(handler) as client, Http(client.config, fence=fence) as fenced:
        with pytest.raises(ServiceUnavailable, match="lost"):
            await fenced.delete(ConfigMap, "a", "ns")
    assert "DELETE" not in received


async def test_a_watch_that_is_told_to_wait_waits_as_long_as_the_server_says() -> None:
    codes = [429, 200]

    async def handler(request: web.Request) -> web.Response:
        code = codes.pop(0)
        line = json.dumps({"type": "ADDED", "object": config_map("a", 3)}) + "\n"
        return web.Response(text=line, status=code, headers={"Retry-After": "5"})

    async with serving(handler) as client:
        async with aclosing(client.watch(ConfigMap, resource_version="2")) as watch:
            [event] = await anext(watch)
        assert event.object.metadata.name == "a"
        assert client._clock.slept == [5.0]  # type: ignore[attr-defined]


async def test_requests_keep_to_the_rate_that_is_set_and_watches_do_not_count() -> None:
    async def handler(request: web.Request) -> web.Response:
        made = config_map("a", 1)
        return web.Response(text=json.dumps({"type": "ADDED", "object": made} if request.query else made) + "\n")

    async with serving(handler, qps=2.0, burst=3) as client:
        for _ in range(3):
            await client.get(ConfigMap, "a", "ns")
        assert client._clock.slept == []  # type: ignore[attr-defined]
        async with aclosing(client.watch(ConfigMap, resource_version="1")) as watch:
            await anext(watch)
        await client.get(ConfigMap, "a", "ns")
        await client.get(ConfigMap, "a", "ns")
        assert client._clock.slept == [0.5, 1.0]  # type: ignore[attr-defined]
