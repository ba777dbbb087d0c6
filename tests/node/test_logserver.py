"""Who may read logs on a node, and what an API server makes of them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from dray.api.errors import ApiError, BadRequest, ServiceUnavailable
from dray.api.resources import BY_TYPE
from dray.api.types.core import Node, Pod
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.request import Request
from dray.apiserver.security.certificates import KeyPair, Keys
from dray.apiserver.wire.logs import NodeLogs
from dray.apiserver.wire.serving import HttpServer, listen
from dray.client import Client, InProcess
from dray.node.agent import Agent
from tests.node.cluster import NAMESPACE, NODE, Cluster
from tests.node.conftest import running_agent
from tests.waiting import eventually


async def log(server: Running, pod: str, **query: str) -> str:
    """What a GET of the pod's log answers."""
    request = Request(user=ADMIN, verb="get", resource=BY_TYPE[Pod], namespace=NAMESPACE, name=pod, subresource="log")
    assert server.api.log_source is not None
    return b"".join([piece async for piece in server.api.log_source(request, query)]).decode()


class TestPlain:
    """Without users: plain HTTP on the loopback address."""

    async def test_logs_come_through_the_api_server(self, node: Agent, cluster: Cluster, server: Running) -> None:
        await cluster.pod("p", "echo one; echo two; sleep 0.1; exit 1", restartPolicy="OnFailure")
        await cluster.until(
            "p", lambda pod: pod.status.containerStatuses and pod.status.containerStatuses[0].restartCount
        )
        assert await log(server, "p", previous="true") == "one\ntwo\n"
        assert await log(server, "p", previous="true", tailLines="1") == "two\n"
        assert await log(server, "p", container="main", follow="true") == "one\ntwo\n"

    async def test_a_log_is_followed_until_the_reader_leaves_or_the_server_ends(
        self, node: Agent, cluster: Cluster, server: Running
    ) -> None:
        await cluster.pod("p", "sleep 600")
        await cluster.phase("p", "Running")
        source = server.api.log_source
        assert isinstance(source, NodeLogs)
        sock = listen("127.0.0.1", 0)
        http = HttpServer(server.http, sock, None)
        await http.start()
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/api/v1/namespaces/{NAMESPACE}/pods/p/log?follow=true"
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as answer:
                assert (answer.status, source.reading) == (200, 1)
            await eventually(lambda: source.reading == 0)
            async with session.get(url) as answer:
                server.drain()
                with suppress(aiohttp.ClientError):
                    await answer.read()
            await eventually(lambda: source.reading == 0)
        await http.stop()

    async def test_no_web_page_reads_logs_or_enters_a_container(
        self, node: Agent, cluster: Cluster, client: Client
    ) -> None:
        await cluster.pod("p", "echo one; sleep 600")
        await cluster.phase("p", "Running")
        port = (await client.get(Node, NODE)).status.daemonEndpoints.kubeletEndpoint.Port
        url = f"http://127.0.0.1:{port}"
        exec_url = f"{url}/exec/{NAMESPACE}/p/main?command=true&output=1"
        async with aiohttp.ClientSession() as session:
            for headers in (
                {"Origin": "http://evil.example.com"},
                {"Host": f"evil.example.com:{port}"},
                {"Sec-Fetch-Site": "cross-site"},
            ):
                async with session.get(f"{url}/containerLogs/{NAMESPACE}/p/main", headers=headers) as answer:
                    assert answer.status == 403, headers
                with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                    await session.ws_connect(exec_url, headers=headers, protocols=("v4.channel.k8s.io",))
            async with session.ws_connect(exec_url, protocols=("v4.channel.k8s.io",)) as stream:
                assert not stream.closed

    async def test_what_cannot_be_read_is_explained(
        self, node: Agent, cluster: Cluster, server: Running, client: Client
    ) -> None:
        await cluster.pod("p", claims=("none",), reserve=False)
        await cluster.event("p", "FailedPrepareDynamicResources")
        with pytest.raises(BadRequest, match='container "main" in pod "p" is waiting to start: ContainerCreating'):
            await log(server, "p")
        with pytest.raises(BadRequest, match='previous terminated container "main" in pod "p" not found'):
            await log(server, "p", previous="true")
        with pytest.raises(BadRequest, match="container x is not valid for pod p"):
            await log(server, "p", container="x")
        with pytest.raises(BadRequest, match="tailLines"):
            await log(server, "p", tailLines="-3")
        with pytest.raises(ApiError, match='pods "no" not found'):
            await log(server, "no")

    async def test_a_container_must_be_chosen_among_several(self, cluster: Cluster, server: Running) -> None:
        containers = [{"name": name, "image": "i", "command": ["true"]} for name in ("a", "b")]
        await cluster.pod("p", containers=containers)
        with pytest.raises(BadRequest, match=r"must be specified for pod p, choose one of: \[a b\]"):
            await log(server, "p")

    async def test_a_node_without_endpoint_is_named(self, cluster: Cluster, server: Running, client: Client) -> None:
        await cluster.pod("p")
        with pytest.raises(ApiError, match=f'nodes "{NODE}" not found'):
            await log(server, "p")
        await client.create(Node, {"metadata": {"name": NODE}})
        with pytest.raises(ServiceUnavailable, match=f"node {NODE} has no address that leads to containers"):
            await log(server, "p")

    async def test_a_node_that_does_not_answer_is_no_crash(
        self, cluster: Cluster, server: Running, client: Client
    ) -> None:
        await cluster.pod("p")
        await client.create(Node, {"metadata": {"name": NODE}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
        }
        await client.patch(Node, NODE, {"status": status}, subresource="status")
        with pytest.raises(ServiceUnavailable, match="the node's logs cannot be read"):
            await log(server, "p")

    async def test_nothing_is_served_openly_on_a_network(self, client: Client, root: Path) -> None:
        async with running_agent(client, root, address="0.0.0.0"):
            node = await client.get(Node, NODE)
        assert node.status.daemonEndpoints.kubeletEndpoint.Port == 0


class TestGuarded:
    """With a cluster authority: only API servers may read."""

    @pytest.fixture
    def keys(self, tmp_path: Path) -> Keys:
        return Keys.open(tmp_path)

    @pytest.fixture
    async def server(self, keys: Keys) -> AsyncIterator[Running]:
        running = await Running.open(ServerSettings(keys=keys, disabled_plugins=("ServiceAccount",)))
        yield running
        await running.close()

    @pytest.fixture
    async def node(self, server: Running, root: Path, clean: None) -> AsyncIterator[Agent]:
        client = InProcess(server.api, ADMIN)
        async with running_agent(client, root, authority=server.root_ca) as running:
            yield running

    async def test_the_api_server_may_read(self, node: Agent, server: Running) -> None:
        cluster = Cluster(InProcess(server.api, ADMIN))
        await cluster.pod("p", "echo secret", restartPolicy="Never")
        await cluster.phase("p", "Succeeded")
        assert await log(server, "p") == "secret\n"

    async def test_others_may_not(self, node: Agent, server: Running, keys: Keys, tmp_path: Path) -> None:
        client = InProcess(server.api, ADMIN)
        port = (await client.get(Node, NODE)).status.daemonEndpoints.kubeletEndpoint.Port
        url = f"https://127.0.0.1:{port}/containerLogs/default/p/main"
        assert await asked(url, tmp_path, keys.client("jane", ("developers",))) == 403
        assert await asked(url, tmp_path, keys.client("root", ("system:masters",))) == 404
        with pytest.raises(aiohttp.ClientError):
            await asked(url, tmp_path, None)
        stranger = Keys.open(tmp_path / "other")
        with pytest.raises(aiohttp.ClientError):
            await asked(url, tmp_path, stranger.client("kube-apiserver-kubelet-client"))


async def asked(url: str, directory: Path, pair: KeyPair | None) -> int:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if pair is not None:
        file = directory / "pair.pem"
        file.write_bytes(pair.certificate + b"\n" + pair.key)
        context.load_cert_chain(file)
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
        return answer.status
