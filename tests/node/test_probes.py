"""Probes and hooks: what they ask, what counts, and what becomes of a container; under a real runtime."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from dray.api.types.core import Container, Pod, Probe
from dray.client import Client, SystemClock
from dray.node.agent import Agent
from dray.node.handlers import ActionOutcome, Handlers
from dray.node.probes import Streak
from dray.node.runtime import ContainerKey
from dray.node.runtimes import open_runtime
from dray.rpc import dra_v1_pb2
from tests.node.cluster import Cluster
from tests.node.conftest import running_agent
from tests.node.test_agent import container, lines
from tests.ports import free_port
from tests.waiting import eventually, linger

KEY = ContainerKey("p", "c", 0)


@given(st.lists(st.booleans()), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_an_answer_counts_after_as_many_in_a_row_as_asked_for(
    answers: list[bool], success: int, failure: int, good: bool
) -> None:
    streak = Streak(Probe(successThreshold=success, failureThreshold=failure), good)
    for number, ok in enumerate(answers, 1):
        needed = success if ok else failure
        reached = number >= needed and set(answers[number - needed : number]) == {ok}
        good = ok if reached else good
        assert (streak.add(ok), streak.good) == (reached, good)


# What is asked


@pytest.fixture
async def site() -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        path = request.path
        if path == "/agent":
            return web.Response(status=200 if request.headers["User-Agent"] == "kube-probe/1.37" else 500)
        if path == "/header":
            return web.Response(status=200 if request.headers.get("X-Own") == "yes" else 500)
        if path == "/away":
            raise web.HTTPFound("http://elsewhere.invalid/")
        if path == "/round":
            raise web.HTTPFound("/agent")
        if path == "/slow":
            await asyncio.sleep(30)
        return web.Response(status=int(path[1:]))

    app = web.Application()
    app.router.add_get("/{path}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield str(runner.addresses[0][1])
    await runner.cleanup()


async def asked(probe: dict[str, Any], seconds: float = 5, **container: Any) -> ActionOutcome:
    handlers = Handlers(open_runtime("fake", Path("/nowhere")), SystemClock())
    typed = msgspec.convert({"name": "c", **container}, Container)
    return await handlers.act(msgspec.convert(probe, Probe), typed, KEY, "127.0.0.1", seconds)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/200", ActionOutcome(True)),
        ("/399", ActionOutcome(True)),
        ("/agent", ActionOutcome(True)),
        ("/round", ActionOutcome(True)),
        ("/503", ActionOutcome(False, "HTTP probe failed with statuscode: 503")),
        ("/away", ActionOutcome(True, "Probe terminated redirects, Response body: 302: Found", warning=True)),
    ],
)
async def test_http(site: str, path: str, expected: ActionOutcome) -> None:
    action = {"port": "web", "path": path, "scheme": "HTTP"}
    assert await asked({"httpGet": action}, ports=[{"name": "web", "containerPort": int(site)}]) == expected


async def test_http_headers_timeouts_and_nobody_there(site: str) -> None:
    headers = [{"name": "X-Own", "value": "yes"}]
    assert (await asked({"httpGet": {"port": int(site), "path": "/header", "httpHeaders": headers}})).ok
    slow = await asked({"httpGet": {"port": int(site), "path": "/slow"}}, 0.2)
    assert slow.text.startswith(f'Get "http://127.0.0.1:{site}/slow": context deadline exceeded')
    port = free_port()
    gone = await asked({"httpGet": {"port": port, "path": "/"}})
    assert gone.text == f'Get "http://127.0.0.1:{port}/": dial tcp 127.0.0.1:{port}: connect: connection refused'
    assert await asked({"httpGet": {"port": "nope", "path": "/"}}) == ActionOutcome(
        False, "couldn't find port: nope", True
    )


async def test_tcp(site: str) -> None:
    assert await asked({"tcpSocket": {"port": int(site)}}) == ActionOutcome(True)
    port = free_port()
    expected = ActionOutcome(False, f"dial tcp 127.0.0.1:{port}: connect: connection refused")
    assert await asked({"tcpSocket": {"port": port}}) == expected


async def test_grpc() -> None:
    async def check(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return {b"": b"\x08\x01", b"\x0a\x03bad": b"\x08\x02"}[request]

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(check)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    assert await asked({"grpc": {"port": port}}) == ActionOutcome(True)
    unhealthy = await asked({"grpc": {"port": port, "service": "bad"}})
    assert unhealthy == ActionOutcome(False, 'service unhealthy (responded with "NOT_SERVING")')
    await server.stop(0)
    gone = await asked({"grpc": {"port": port}}, 1)
    assert gone.text.startswith(f'timeout: failed to connect service "127.0.0.1:{port}" within 1s: ')


@pytest.mark.parametrize("path", ["http://[", "//[::1", "/\n", "/\0", "/\U0010ffff", "mailto:x", "/%zz"])
async def test_no_path_makes_a_probe_fail_in_another_way(site: str, path: str) -> None:
    assert not (await asked({"httpGet": {"port": int(site), "path": path}})).ok


@pytest.mark.parametrize("length", [127, 128, 16_383, 16_384, 40_000])
async def test_the_name_of_a_grpc_service_may_be_long(length: int) -> None:
    received: list[bytes] = []

    async def check(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        received.append(request)
        return b"\x08\x01"

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(check)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    assert (await asked({"grpc": {"port": port, "service": "s" * length}})).ok
    await server.stop(0)
    known = dra_v1_pb2.Claim.FromString(received[0])  # its first field is a text, too
    assert known.namespace == "s" * length


# What becomes of a container


def ready(pod: Pod) -> dict[str, str]:
    return {c.type: c.status for c in pod.status.conditions}


def exec_probe(script: str, **more: Any) -> dict[str, Any]:
    return {"exec": {"command": ["/bin/sh", "-c", script]}, "periodSeconds": 1, **more}


async def test_a_container_is_ready_while_its_probe_succeeds(node: Agent, cluster: Cluster, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    probe = exec_probe(f"test -e {flag} || (echo not yet; false)", failureThreshold=1)
    await cluster.pod("p", containers=[container("main", "sleep 600", readinessProbe=probe)])
    assert await cluster.event("p", "Unhealthy") == "Readiness probe failed: not yet\n"
    pod = await cluster.phase("p", "Running")
    assert (ready(pod)["Ready"], ready(pod)["ContainersReady"]) == ("False", "False")
    assert pod.status.containerStatuses[0].started
    flag.touch()
    await cluster.until("p", lambda pod: ready(pod)["Ready"] == "True" and pod.status.containerStatuses[0].ready)
    flag.unlink()
    pod = await cluster.until("p", lambda pod: ready(pod)["Ready"] == "False")
    assert pod.status.containerStatuses[0].restartCount == 0


async def test_a_container_that_is_not_alive_is_restarted(node: Agent, cluster: Cluster, root: Path) -> None:
    probe = exec_probe("exit 1", failureThreshold=2, terminationGracePeriodSeconds=1)
    pod = await cluster.pod("p", containers=[container("main", "echo up; exec sleep 600", livenessProbe=probe)])
    killed = await cluster.event("p", "Killing")
    assert killed == "Container main failed liveness probe, will be restarted"
    await cluster.until("p", lambda pod: pod.status.containerStatuses[0].restartCount >= 1)
    await eventually(lambda: lines(root, pod, attempt=1) == ["up"])


async def test_nothing_is_asked_before_the_startup_probe_has_succeeded(
    node: Agent, cluster: Cluster, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    probes = {
        "startupProbe": exec_probe(f"test -e {flag}", failureThreshold=100),
        "livenessProbe": exec_probe("exit 1", failureThreshold=1),
    }
    await cluster.pod("p", containers=[container("main", "sleep 600", **probes)])
    text = await cluster.event("p", "Unhealthy")
    assert text.startswith("Startup probe failed: ")
    pod = await cluster.phase("p", "Running")
    assert (pod.status.containerStatuses[0].started, pod.status.containerStatuses[0].ready) == (False, False)
    await linger(1.2)
    assert all(reason != "Killing" for reason, _ in await cluster.events("p"))
    flag.touch()
    assert "liveness" in await cluster.event("p", "Killing")


async def test_a_container_that_never_starts_is_restarted(node: Agent, cluster: Cluster) -> None:
    probe = exec_probe("exit 1", failureThreshold=1, terminationGracePeriodSeconds=1)
    await cluster.pod("p", containers=[container("main", "exec sleep 600", startupProbe=probe)])
    assert await cluster.event("p", "Killing") == "Container main failed startup probe, will be restarted"


async def test_a_sidecar_holds_back_what_follows_until_it_has_started(
    node: Agent, cluster: Cluster, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    probe = exec_probe(f"test -e {flag}", failureThreshold=100)
    sidecar = container("side", "sleep 600", restartPolicy="Always", startupProbe=probe)
    await cluster.pod("p", initContainers=[sidecar])
    await cluster.event("p", "Unhealthy")
    assert (await cluster.get("p")).status.phase == "Pending"
    flag.touch()
    await cluster.phase("p", "Running")


async def test_readiness_gates_count(node: Agent, cluster: Cluster) -> None:
    await cluster.pod("p", readinessGates=[{"conditionType": "example.com/gate"}])
    pod = await cluster.until("p", lambda pod: ready(pod).get("ContainersReady") == "True")
    [condition] = [c for c in pod.status.conditions if c.type == "Ready"]
    text = 'corresponding condition of pod readiness gate "example.com/gate" does not exist.'
    assert (condition.status, condition.reason, condition.message) == ("False", "ReadinessGatesNotReady", text)
    await cluster.status("p", {"conditions": [{"type": "example.com/gate", "status": "True"}]})
    await cluster.until("p", lambda pod: ready(pod)["Ready"] == "True")


# Hooks


def hook(script: str) -> dict[str, Any]:
    return {"exec": {"command": ["/bin/sh", "-c", script]}}


async def test_hooks_run_after_the_start_and_before_the_end(node: Agent, cluster: Cluster, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    hooks = {"postStart": hook(f"echo started >> {notes}"), "preStop": hook(f"echo stopping >> {notes}")}
    script = f"trap 'echo ended >> {notes}; exit 0' TERM; while :; do sleep 0.05; done"
    await cluster.pod("p", containers=[container("main", script, lifecycle=hooks)], terminationGracePeriodSeconds=30)
    await cluster.until("p", lambda pod: ready(pod).get("Ready") == "True")
    assert notes.read_text() == "started\n"
    await cluster.delete("p")
    await cluster.gone("p")
    assert notes.read_text() == "started\nstopping\nended\n"


async def test_hooks_that_fail_are_told_and_a_failed_start_ends_the_container(node: Agent, cluster: Cluster) -> None:
    await cluster.pod("bad", containers=[container("main", "sleep 600", lifecycle={"postStart": hook("exit 1")})])
    assert await cluster.event("bad", "FailedPostStartHook") == "PostStartHook failed"
    await cluster.until("bad", lambda pod: pod.status.containerStatuses[0].restartCount >= 1)
    await cluster.pod("p", containers=[container("main", "sleep 600", lifecycle={"preStop": hook("exit 1")})])
    await cluster.phase("p", "Running")
    await cluster.delete("p")
    assert await cluster.event("p", "FailedPreStopHook") == "PreStopHook failed"


async def test_a_hook_that_hangs_does_not_take_longer_than_the_grace(node: Agent, cluster: Cluster) -> None:
    await cluster.pod(
        "p",
        containers=[container("main", "exec sleep 600", lifecycle={"preStop": {"sleep": {"seconds": 1}}})],
        terminationGracePeriodSeconds=1,
    )
    await cluster.phase("p", "Running")
    begun = time.monotonic()
    await cluster.delete("p")
    await cluster.gone("p")
    assert time.monotonic() - begun < 15


# Last words


@pytest.mark.parametrize("runtime", ["process", "bwrap", "oci"])
async def test_a_container_says_why_it_ended(
    node_client: Client, cluster: Cluster, root: Path, clean: None, runtime: str
) -> None:
    from tests.node.test_runtimes import unavailable

    if why := unavailable(runtime):
        pytest.skip(why)
    async with running_agent(node_client, root, runtime=runtime):
        fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        said = "echo from the log; exit 1" if runtime == "process" else "echo why > /dev/termination-log; exit 1"
        await cluster.pod("p", restartPolicy="Never", containers=[container("main", said, **fallback)])
        done = await cluster.phase("p", "Failed")
        terminated = done.status.containerStatuses[0].state.terminated
        assert terminated is not None
        assert terminated.message == ("from the log\n" if runtime == "process" else "why\n")
        await cluster.pod("log", "echo hidden; exit 1", restartPolicy="Never")
        done = await cluster.phase("log", "Failed")
        assert done.status.containerStatuses[0].state.terminated.message == ""  # type: ignore[union-attr]


async def test_a_restart_that_is_put_off_is_told(node: Agent, cluster: Cluster) -> None:
    pod = await cluster.pod("p", "exit 1")
    text = f"Back-off restarting failed container main in pod p_default({pod.metadata.uid})"
    assert await cluster.event("p", "BackOff") == text
