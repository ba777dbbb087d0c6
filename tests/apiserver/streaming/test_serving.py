"""exec, attach and port-forward from clients to containers, through a real API server and a real node agent."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from dray.testing import Cluster
from tests import kubectls
from tests.ports import free_port
from tests.waiting import SECONDS, eventually, wait_until, within

PORT = free_port()  # both clusters run on this machine, so the second web server finds it taken, which is no matter
SCRIPT = "trap 'exit 0' TERM; n=0; while true; do n=$((n+1)); echo tick $n; sleep 0.1; done"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {"name": "main", "image": "x", "command": ["sh", "-c", SCRIPT], "env": [{"name": "GPU", "value": "gpu-7"}]},
            {
                "name": "web",
                "image": "x",
                "command": ["python3", "-m", "http.server", str(PORT), "--bind", "127.0.0.1"],
            },
        ],
    },
}


@pytest.fixture(scope="module")
def secure() -> Iterator[Cluster]:
    """As it is in use, for kubectl."""
    with running() as made:
        yield made


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Without TLS, for clients in this process: connections that end politely would outlive the loops of the tests."""
    with running(insecure=True) as made:
        yield made


@contextmanager
def running(**options: bool) -> Iterator[Cluster]:
    with Cluster(agents=1, runtime="process", **options) as made:
        made.apply(POD)
        made.wait("pods", "p", lambda pod: pod["status"].get("phase") == "Running")
        wait_until(listens)
        yield made


def listens() -> bool:
    """Whether the web server of the pod is there."""
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", PORT)) == 0


def server(cluster: Cluster) -> str:
    return str(yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])


@asynccontextmanager
async def connected(cluster: Cluster, path: str, protocol: str) -> AsyncIterator[Any]:
    async with aiohttp.ClientSession() as session:
        url = f"{server(cluster)}/api/v1/namespaces/default/pods/p/{path}"
        async with session.ws_connect(url, protocols=(protocol,)) as opened:
            yield opened


def executed(*command: str, **options: str) -> str:
    asked = {"container": "main", "stdout": "true", "stderr": "true", **options}
    words = [f"command={word}" for word in command] + [f"{name}={value}" for name, value in asked.items()]
    return "exec?" + "&".join(words)


async def conversation(opened: Any) -> tuple[dict[int, bytes], dict[str, Any]]:
    """What came on each output, and how it ended."""
    output: dict[int, bytes] = {}
    async for message in opened:
        channel, data = message.data[0], message.data[1:]
        if channel == 3:
            return output, json.loads(data)
        output[channel] = output.get(channel, b"") + data
    return output, {}


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_outputs_and_exit_code_arrive(cluster: Cluster, protocol: str) -> None:
    async with connected(cluster, executed("sh", "-c", "echo $GPU; echo no >%262; exit 3"), protocol) as opened:
        assert opened.protocol == protocol
        output, status = await within(conversation(opened))
    assert output == {1: b"gpu-7\n", 2: b"no\n"}
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_input_reaches_the_command_until_it_ends(cluster: Cluster) -> None:
    async with connected(cluster, executed("cat", stdin="true"), "v5.channel.k8s.io") as opened:
        for piece in (b"one ", b"two"):
            await opened.send_bytes(b"\0" + piece)
        await opened.send_bytes(bytes([255, 0]))
        output, status = await within(conversation(opened))
    assert (output[1], status["status"]) == (b"one two", "Success")


async def test_a_terminal_has_a_size_and_one_output(cluster: Cluster) -> None:
    script = "read x; stty size; echo error >%262"
    async with connected(
        cluster, executed("sh", "-c", script, tty="true", stdin="true"), "v5.channel.k8s.io"
    ) as opened:
        await opened.send_bytes(b"\4" + json.dumps({"Width": 91, "Height": 33}).encode())
        await opened.send_bytes(b"\0go\n")
        output, _ = await within(conversation(opened))
    assert b"33 91" in output[1]
    assert b"error" in output[1]
    assert 2 not in output


async def test_the_text_form_carries_base64(cluster: Cluster) -> None:
    async with connected(cluster, executed("echo", "hi"), "base64.channel.k8s.io") as opened:
        texts = [message.data async for message in opened]
    assert [base64.b64decode(text[1:]) for text in texts if text[0] == "1"] == [b"", b"hi\n"]


async def test_a_command_ends_when_its_client_goes(cluster: Cluster) -> None:
    mark = "7654.25"
    async with connected(cluster, executed("sleep", mark), "v5.channel.k8s.io") as opened:
        await within(opened.receive())
        await runs(mark, True)
    await runs(mark, False)


async def runs(argument: str, expected: bool) -> None:
    await eventually(lambda: any(argument.encode() in words for words in command_lines()) is expected)


def command_lines() -> Iterator[list[bytes]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().split(b"\0")
        except OSError:
            continue


async def test_attach_shows_what_is_written_from_now_on(cluster: Cluster) -> None:
    async with connected(cluster, "attach?container=main&stdout=true", "v5.channel.k8s.io") as opened:
        seen = b""
        while b"tick" not in seen:
            seen += (await within(opened.receive())).data[1:]
    assert b"tick 1\n" not in seen  # what was written before is in the log


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("exec?command=ls", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("exec?stdout=true&container=main", 400, "at least one command"),
        ("exec?command=ls&stdout=true", 400, "a container name must be specified for pod p, choose one of: [main web]"),
        ("exec?command=ls&stdout=true&container=nope", 400, "container nope is not valid for pod p"),
    ],
)
async def test_what_is_wrong_is_answered_before_the_upgrade(cluster: Cluster, path: str, code: int, text: str) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
    headers |= {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    url = f"{server(cluster)}/api/v1/namespaces/default/pods/p/{path}"
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
        status = await answer.json()
    assert (answer.status, text in status["message"]) == (code, True), status


async def test_an_ordinary_request_is_told_to_upgrade(cluster: Cluster) -> None:
    url = f"{server(cluster)}/api/v1/namespaces/default/pods/p/{executed('ls')}"
    async with aiohttp.ClientSession() as session, session.post(url) as answer:
        assert (answer.status, "Upgrade request required" in await answer.text()) == (400, True)


async def test_the_older_form_of_port_forward_has_two_channels_a_port(cluster: Cluster) -> None:
    async with connected(cluster, f"portforward?ports={PORT}", "v4.channel.k8s.io") as opened:
        first, second = (await within(opened.receive())).data, (await within(opened.receive())).data
        assert (first, second) == (b"\0" + PORT.to_bytes(2, "little"), b"\1" + PORT.to_bytes(2, "little"))
        await opened.send_bytes(b"\0GET / HTTP/1.0\r\n\r\n")
        assert (await within(opened.receive())).data.startswith(b"\0HTTP/1.0 200 OK")


@pytest.mark.parametrize("cut", [1, 7, 30])
async def test_a_connection_that_is_cut_leaves_the_server_whole(cluster: Cluster, cut: int) -> None:
    host, port = server(cluster).removeprefix("http://").split(":")
    head = (
        f"POST /api/v1/namespaces/default/pods/p/{executed('cat', stdin='true')} HTTP/1.1\r\nHost: {host}\r\n"
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        "X-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode())
    assert b"101 Switching Protocols" in await within(reader.readuntil(b"\r\n\r\n"))
    writer.write((b"\x80\x03\x00\x01\0\0\0\x40" + bytes(64))[:cut])
    await writer.drain()
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()
    async with connected(cluster, executed("true"), "v5.channel.k8s.io") as opened:
        assert (await within(conversation(opened)))[1]["status"] == "Success"


def masked(opcode: int, data: bytes) -> bytes:
    """A frame as a client sends it; the mask is one that changes nothing."""
    return bytes([0x80 | opcode, 0x80 | len(data)]) + bytes(4) + data


@pytest.mark.parametrize("part", [0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.9, 0.97, 1.0])
@pytest.mark.parametrize("how", ["exec", "attach", "portforward"])
async def test_a_conversation_that_is_cut_anywhere_leaves_nothing_behind(
    cluster: Cluster, how: str, part: float
) -> None:
    host, port = server(cluster).removeprefix("http://").split(":")
    mark = f"{8000 + part * 100:g}.5"
    path = {
        "exec": executed("sh", "-c", f"cat; exec sleep {mark}", stdin="true").replace(" ", "%20").replace(";", "%3B"),
        "attach": "attach?container=main&stdin=true&stdout=true",
        "portforward": f"portforward?ports={PORT}",
    }[how]
    head = (
        f"GET /api/v1/namespaces/default/pods/p/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n"
    ).encode()
    said = masked(2, b"\0some words") + masked(2, b'\4{"Width": 80, "Height": 24}') + masked(9, b"ping")
    reader, writer = await asyncio.open_connection(host, int(port))
    whole = head + said
    writer.write(whole[: round(len(whole) * part)])
    with suppress(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.05)  # sometimes it has begun by then, sometimes not
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()
    await runs(mark, False)
    async with connected(cluster, executed("true"), "v5.channel.k8s.io") as opened:
        assert (await within(conversation(opened)))[1]["status"] == "Success"


# Real kubectl


@pytest.fixture(params=kubectls.NAMES)
def kubectl(request: pytest.FixtureRequest, secure: Cluster) -> kubectls.Kubectl:
    return kubectls.kubectl_of(request.param, secure.kubeconfig)


def test_kubectl_runs_commands_and_passes_exit_codes_on(kubectl: kubectls.Kubectl) -> None:
    done = kubectl.run("exec", "-i", "p", "-c", "main", "--", "sh", "-c", "cat; echo bad >&2; exit 4", stdin="hello")
    assert (done.stdout, done.returncode) == ("hello", 4), done.stderr
    assert "bad" in done.stderr


def test_kubectl_copies_files_there_and_back(kubectl: kubectls.Kubectl) -> None:
    with tempfile.TemporaryDirectory() as name:
        here, back, there = Path(name) / "here", Path(name) / "back", f"{name}/there"
        here.write_bytes(bytes(range(256)) * 4000)
        kubectl("cp", str(here), f"p:{there}", "-c", "main")
        kubectl("cp", f"p:{there}", str(back), "-c", "main")
        assert back.read_bytes() == here.read_bytes()


def test_kubectl_forwards_ports_and_says_what_is_closed(kubectl: kubectls.Kubectl) -> None:
    closed = free_port()
    process = subprocess.Popen(
        [*kubectl.words, "port-forward", "pod/p", f":{PORT}", f":{closed}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=kubectl.environment,
    )
    assert process.stdout is not None
    try:
        local: list[int] = []
        for line in process.stdout:
            if "127.0.0.1" in line:
                local.append(int(line.split("127.0.0.1:")[1].split(" ")[0]))
            if len(local) == 2:
                break
        with socket.create_connection(("127.0.0.1", local[0]), SECONDS) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.makefile("rb").read().startswith(b"HTTP/1.0 200 OK")
        with socket.create_connection(("127.0.0.1", local[1]), SECONDS) as connection:
            assert connection.recv(1) == b""
        refused = (
            f"unable to connect to port {closed} of the pod: dial tcp 127.0.0.1:{closed}: connect: connection refused"
        )
        assert any(refused in line for line in process.stdout)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_whoever_may_only_read_pods_opens_nothing(kubectl: kubectls.Kubectl, secure: Cluster) -> None:
    account = "--as=system:serviceaccount:default:reader"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subjects = [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "view"}}
    secure.apply({**binding, "subjects": subjects, "roleRef": reference})
    allowed = kubectl.run(account, "get", "pod", "p")
    refused = kubectl.run(account, "exec", "p", "-c", "main", "--", "ls")
    assert (allowed.returncode, refused.returncode) == (0, 1)
    assert "pods/exec" in refused.stderr
    assert "forbidden" in refused.stderr


async def test_no_port_is_forwarded_to_a_pod_that_nothing_runs(cluster: Cluster) -> None:
    """The ports of the machine, on which a program listens, are not those of a pod under the runtime fake."""
    with Cluster(agents=1, runtime="fake", insecure=True) as other:
        other.apply(POD)
        other.wait("pods", "p", lambda pod: pod["status"].get("phase") == "Running")
        async with connected(other, f"portforward?ports={PORT}", "v4.channel.k8s.io") as opened:
            for _ in range(2):
                await within(opened.receive())  # the number of the port on both channels
            await opened.send_bytes(b"\0GET / HTTP/1.0\r\n\r\n")
            said = (await within(opened.receive())).data
        assert said == f"\1unable to connect to port {PORT} of the pod: the runtime fake executes nothing".encode()
