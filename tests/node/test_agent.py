"""A node as a whole: real processes, real sockets, a real API server, with the rights of a node."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import REGISTRY

from dray.api.errors import ServiceUnavailable
from dray.api.gates import FeatureGates
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.wording import say
from dray.api.simulated import RUNS_NO_PODS
from dray.api.types.coordination import Lease
from dray.api.types.core import ConfigMap, ContainerStateWaiting, Node, Pod
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.wire.serving import HttpServer, listen
from dray.client import Client, InProcess, ManualClock
from dray.client.config import Config
from dray.client.http import Http
from dray.node import emptydirs
from dray.node.agent import Agent, AgentError
from dray.node.checkpoint import Checkpoint
from dray.node.fake import FakeRuntime
from dray.node.runtimes import unavailable
from dray.node.status import EDITS_APPLIED
from dray.rpc import health_pb2
from tests import objects
from tests.e2e.interference import interposed, meanwhile
from tests.node.cluster import NAMESPACE, NODE, Cluster
from tests.node.conftest import running_agent
from tests.node.driver import NAME, Driver
from tests.saying import not_reserved
from tests.waiting import eventually, linger, within


def lines(root: Path, pod: Pod, container: str = "main", attempt: int = 0) -> list[str]:
    """What a container has written."""
    files = [*(root / "pods" / pod.metadata.uid / "containers" / container).glob(f"{attempt}-*/log")]
    return [line.split(" ", 3)[3] for line in files[0].read_text().splitlines()] if files else []


def checkpointed(root: Path) -> list[str]:
    return [*Checkpoint.open(root / "claims.json")[0].claims]


def nothing_left(root: Path, driver: Driver) -> bool:
    return not (driver.prepared or driver.cdi_files or checkpointed(root) or [*(root / "pods").glob("*")])


def container(name: str, script: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "none", "command": ["/bin/sh", "-c", script], **more}


# Devices


async def test_a_container_gets_the_environment_of_its_device(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    claim = await cluster.claim("c")
    pod = await cluster.pod("p", "echo $GPU", claims=("c",), restartPolicy="Never")
    done = await cluster.phase("p", "Succeeded")
    assert lines(root, pod) == [claim.metadata.uid]
    [status] = done.status.containerStatuses
    assert status.state.terminated is not None
    assert (status.state.terminated.exitCode, status.state.terminated.reason) == (0, "Completed")
    assert driver.calls == [("prepare", [claim.metadata.uid]), ("unprepare", [claim.metadata.uid])]
    assert driver.cdi_files == []


async def test_two_containers_with_different_requests_get_different_devices(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    uids = [(await cluster.claim(name)).metadata.uid for name in ("one", "two")]
    containers = [
        container(name, "echo $GPU", resources={"claims": [{"name": name, "request": "gpu"}]})
        for name in ("one", "two")
    ]
    pod = await cluster.pod("p", claims=("one", "two"), containers=containers, restartPolicy="Never")
    await cluster.phase("p", "Succeeded")
    assert [lines(root, pod, name) for name in ("one", "two")] == [[uid] for uid in uids]


async def test_a_request_that_the_claim_does_not_have_is_named_and_the_container_runs_without(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    await cluster.claim("c")
    uses = [{"name": "c", "request": "gpu"}, {"name": "c", "request": "nic"}]
    containers = [
        container(name, "echo ${GPU:-none}", resources={"claims": [use]})
        for name, use in zip(("one", "two"), uses, strict=True)
    ]
    pod = await cluster.pod("p", claims=("c",), containers=containers, restartPolicy="Never")
    await cluster.phase("p", "Succeeded")
    assert lines(root, pod, "two") == ["none"]
    text = "container two: claim c (ResourceClaim c) has no request nic, so that the container gets no device for it"
    assert await cluster.event("p", "RequestNotInClaim") == text
    assert [reason for reason, _ in await cluster.events("p")].count("RequestNotInClaim") == 1


async def test_a_shared_claim_is_unprepared_after_the_second_pod(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    await cluster.claim("c")
    for name in ("a", "b"):
        await cluster.pod(name, claims=("c",))
        await cluster.phase(name, "Running")
    await cluster.delete("a")
    await cluster.gone("a")
    assert [len(driver.called(method)) for method in ("prepare", "unprepare")] == [1, 0]
    await cluster.delete("b")
    await cluster.gone("b")
    await eventually(lambda: nothing_left(root, driver))
    assert [len(driver.called(method)) for method in ("prepare", "unprepare")] == [1, 1]


async def test_prepare_that_fails_three_times_is_tried_later_each_time(
    node_client: Client, cluster: Cluster, driver: Driver, root: Path
) -> None:
    clock = ManualClock(1_800_000_000.0)
    async with running_agent(node_client, root, clock=clock, over=FakeRuntime(clock)):
        await driver.start()
        await within(driver.registered.wait())
        await cluster.claim("before")
        await cluster.pod("before", claims=("before",))
        await cluster.phase("before", "Running")  # the driver is connected: nothing hurries the tries that follow
        driver.calls.clear()
        tries = ["once", "twice", "thrice"]
        failures = iter(tries)
        driver.fail = lambda method, uid: next(failures, "")
        await cluster.claim("c")
        await cluster.pod("p", claims=("c",))
        for count, (seconds, word) in enumerate(zip((1, 2, 4), tries, strict=True), 1):
            text = f"Failed to prepare dynamic resources: ResourceClaim c: DRA driver {NAME}: {word}"
            assert await cluster.event("p", "FailedPrepareDynamicResources", word) == text
            await clock.advance(0.9 * seconds)
            await asyncio.sleep(0.05)
            assert len(driver.called("prepare")) == count
            await clock.advance(0.2 * seconds)
            await eventually(lambda count=count: len(driver.called("prepare")) == count + 1)
        await cluster.phase("p", "Running")


async def test_edits_that_cannot_be_applied_are_reported_on_the_pod(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    claim = await cluster.claim("c")
    driver.edits = {"mounts": [{"hostPath": "/usr", "containerPath": "/gpu"}]}
    pod = await cluster.pod("p", "echo $GPU; sleep 600", claims=("c",))
    found = await cluster.until(
        "p", lambda pod: any(c.type == EDITS_APPLIED for c in pod.status.conditions) and pod.status.phase == "Running"
    )
    [condition] = [c for c in found.status.conditions if c.type == EDITS_APPLIED]
    assert (condition.status, condition.message) == ("False", "container main: mount of /usr at /gpu")
    message = await cluster.event("p", "DeviceEditsNotApplied")
    assert message == "container main: the runtime process cannot apply: mount of /usr at /gpu"
    await eventually(lambda: lines(root, pod) == [claim.metadata.uid])


@pytest.mark.parametrize("runtime", ["bwrap", "oci"])
async def test_mounts_and_device_nodes_reach_the_container(
    node_client: Client, cluster: Cluster, driver: Driver, root: Path, runtime: str
) -> None:
    if why := unavailable(runtime):
        pytest.skip(f"{runtime}: {why}")
    (root / "lib").mkdir()
    (root / "lib" / "file").write_text("library\n")
    driver.edits = {
        "mounts": [{"hostPath": str(root / "lib"), "containerPath": "/opt/gpu/lib", "options": ["ro", "bind"]}],
        "deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/null"}],
    }
    async with running_agent(node_client, root, runtime=runtime):
        await driver.start()
        claim = await cluster.claim("c")
        script = "echo $GPU; cat /opt/gpu/lib/file; test -c /dev/gpu0 && echo device"
        pod = await cluster.pod("p", script, claims=("c",), restartPolicy="Never")
        done = await cluster.phase("p", "Succeeded")
        assert lines(root, pod) == [claim.metadata.uid, "library", "device"]
        assert not [c for c in done.status.conditions if c.type == EDITS_APPLIED]
        await cluster.delete("p")
        await eventually(lambda: nothing_left(root, driver))


async def test_a_driver_is_updated_while_its_pods_run(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    await cluster.claim("c")
    await cluster.pod("p", claims=("c",))
    await cluster.phase("p", "Running")
    newer = await Driver(root, instance="new").start()
    newer.prepared |= driver.prepared
    await within(newer.registered.wait())
    await driver.stop()
    driver.prepared.clear()
    await asyncio.sleep(0.3)
    assert (await cluster.get("p")).status.containerStatuses[0].restartCount == 0
    await cluster.delete("p")
    await cluster.gone("p")
    assert (len(newer.called("unprepare")), newer.called("prepare")) == (1, [])
    await eventually(lambda: nothing_left(root, newer))
    await newer.stop()


@pytest.mark.parametrize("served", ["v1beta1", "v1beta2"])
async def test_an_api_server_with_older_versions_will_do(root: Path, driver: Driver, clean: None, served: str) -> None:
    off = {f"resource.k8s.io/{version}": version == served for version in ("v1", "v1beta2", "v1beta1")}
    running = await Running.open(
        ServerSettings(authenticate=False, disabled_plugins=("ServiceAccount",), runtime_config=off)
    )
    sock = listen("127.0.0.1", 0)
    http = HttpServer(running.http, sock, None)
    await http.start()
    cluster = Cluster(InProcess(running.api, ADMIN))
    async with Http(Config(f"http://127.0.0.1:{sock.getsockname()[1]}")) as client, running_agent(client, root):
        await driver.start()
        claim = await cluster.claim("c")
        pod = await cluster.pod("p", "echo $GPU", claims=("c",), restartPolicy="Never")
        await cluster.phase("p", "Succeeded")
        assert lines(root, pod) == [claim.metadata.uid]
    await http.stop()
    await running.close()


async def test_a_device_without_spec_is_named_and_waited_for(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    claim = await cluster.claim("c")
    write_spec = driver.write_spec
    driver.write_spec = lambda uid: None  # type: ignore[method-assign]  # a driver that forgets
    await cluster.pod("p", claims=("c",))
    waiting = await cluster.until(
        "p", lambda pod: pod.status.containerStatuses and pod.status.containerStatuses[0].state.waiting
    )
    state = waiting.status.containerStatuses[0].state.waiting
    assert state is not None
    assert state.reason == "CreateContainerError"
    assert f"CDI device {driver.cdi_id(claim.metadata.uid)} is unknown" in state.message
    write_spec(claim.metadata.uid)
    await cluster.phase("p", "Running")


async def test_the_health_of_devices_is_shown(node_client: Client, cluster: Cluster, root: Path, clean: None) -> None:
    async with running_agent(node_client, root):
        driver = await Driver(root, health=True).start()
        await within(driver.registered.wait())
        claim = await cluster.claim("c")
        await cluster.pod("p", claims=("c",), uses=[{"name": "c", "request": "gpu"}])
        identity = health_pb2.DeviceIdentifier(pool_name="pool", device_name="gpu-0")
        for health, word in ((1, "Healthy"), (2, "Unhealthy")):
            if health == 2:  # a new stream after a restart
                await driver.stop(take_away=False)
                await driver.start()
            driver.health.put_nowait([health_pb2.DeviceHealth(device=identity, health=health, message="hot")])
            pod = await cluster.until("p", lambda pod, word=word: word in str(pod.status.containerStatuses))  # type: ignore[misc]  # bound
        [entry] = pod.status.containerStatuses[0].allocatedResourcesStatus
        assert entry.name == "claim:c/gpu"
        [resource] = entry.resources
        assert (resource.resourceID, resource.health, resource.message) == (
            driver.cdi_id(claim.metadata.uid),
            "Unhealthy",
            "hot",
        )
        await driver.stop()


# Pods that are refused


async def test_a_pod_whose_node_was_set_by_hand_waits(node: Agent, cluster: Cluster, driver: Driver) -> None:
    claim = await cluster.claim("c")
    pod = await cluster.pod("p", claims=("c",), reserve=False)
    message = await cluster.event("p", "FailedPrepareDynamicResources")
    assert message == f"Failed to prepare dynamic resources: {not_reserved(pod, claim)}"
    assert (await cluster.get("p")).status.phase == "Pending"
    assert driver.calls == []
    await cluster.reserve("c", pod)
    await cluster.phase("p", "Running")


@pytest.mark.parametrize("policy", ["Always", "Never"])
async def test_a_container_without_command_waits_and_says_why(
    policy: str, node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    await cluster.claim("c")
    await cluster.pod("p", claims=("c",), containers=[{"name": "main", "image": "nginx"}], restartPolicy=policy)
    why = "no command specified, and the runtime process uses no image that could define one"
    assert await cluster.event("p", "Failed") == f"Error: container main: {why}"
    pod = await cluster.until("p", lambda pod: "CreateContainerError" in str(pod.status.containerStatuses))
    [status] = pod.status.containerStatuses
    assert status.state.waiting is not None
    assert (pod.status.phase, pod.status.reason, status.state.waiting.message) == ("Pending", "", why)
    await cluster.delete("p")
    await cluster.gone("p")
    await eventually(lambda: nothing_left(root, driver))


async def test_a_container_without_command_is_tried_again_later_each_time(
    node_client: Client, cluster: Cluster, root: Path
) -> None:
    clock = ManualClock(1_800_000_000.0)
    before = int(started("CreateContainerError"))
    async with running_agent(node_client, root, clock=clock):
        await cluster.pod("p", containers=[{"name": "main", "image": "nginx"}])
        await eventually(lambda: started("CreateContainerError") == before + 1)
        for count, seconds in enumerate((1, 2, 4), before + 1):
            await clock.advance(0.9 * seconds)
            await linger(0.02)
            assert started("CreateContainerError") == count
            await clock.advance(0.2 * seconds)
            await eventually(lambda count=count: started("CreateContainerError") == count + 1)


async def test_a_pod_that_waits_is_deleted_without_ado(node: Agent, cluster: Cluster, driver: Driver) -> None:
    await cluster.pod("p", claims=("missing",), reserve=False)
    await cluster.event("p", "FailedPrepareDynamicResources", say(ClaimCode.NOT_FOUND, claim="missing"))
    await cluster.delete("p")
    await cluster.gone("p")
    assert driver.calls == []


# The end of pods


async def test_a_deleted_pod_is_stopped_unprepared_and_gone(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    await cluster.claim("c")
    await cluster.pod("p", claims=("c",))
    await cluster.phase("p", "Running")
    await cluster.delete("p")
    await cluster.gone("p")
    await eventually(lambda: nothing_left(root, driver))


async def test_a_pod_that_took_the_place_of_a_deleted_one_stays(
    node_client: Client, cluster: Cluster, root: Path, clean: None
) -> None:
    async def replace() -> None:
        await cluster.delete("p", grace=0)
        await cluster.pod("p")

    own = interposed(node_client, meanwhile(lambda write: write.verb == "delete" and write.type is Pod, replace))
    async with running_agent(own, root):
        first = await cluster.pod("p")
        await cluster.phase("p", "Running")
        await cluster.delete("p")
        second = await cluster.until("p", lambda pod: pod.metadata.uid != first.metadata.uid)
        await linger(0.1)
        assert (await cluster.get("p")).metadata.uid == second.metadata.uid
        assert (await cluster.get("p")).metadata.deletionTimestamp is None


async def test_a_pod_is_not_over_before_its_claims_are_unprepared(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    await cluster.claim("c")
    driver.fail = lambda method, uid: "busy" if method == "unprepare" else ""
    await cluster.pod("done", "true", claims=("c",), restartPolicy="Never")
    await cluster.event("done", "FailedUnprepareDynamicResources", "busy")
    pod = await cluster.until("done", lambda pod: pod.status.containerStatuses[0].state.terminated)
    assert pod.status.phase == "Running"
    await driver.stop()
    await cluster.delete("done")
    await cluster.event("done", "FailedUnprepareDynamicResources", f"DRA driver {NAME} is not registered")
    assert "done" in await cluster.names()
    driver.fail = lambda method, uid: ""
    await driver.start()
    await cluster.gone("done")
    await eventually(lambda: nothing_left(root, driver))


async def test_a_pod_that_is_deleted_by_force_leaves_nothing(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    await cluster.claim("c")
    await cluster.pod("p", "trap '' TERM; while :; do sleep 0.1; done", claims=("c",), terminationGracePeriodSeconds=60)
    await cluster.phase("p", "Running")
    await cluster.delete("p", grace=0)
    assert "p" not in await cluster.names()
    await eventually(lambda: nothing_left(root, driver))


async def test_a_container_has_its_grace_to_end(node: Agent, cluster: Cluster, root: Path) -> None:
    script = f"trap 'sleep 0.3; echo tidy > {root}/end; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    pod = await cluster.pod("p", script, terminationGracePeriodSeconds=20)
    await eventually(lambda: lines(root, pod) == ["up"])
    await cluster.delete("p")
    await cluster.gone("p")
    assert (root / "end").read_text() == "tidy\n"


async def test_a_pod_that_runs_too_long_is_ended(node: Agent, cluster: Cluster) -> None:
    await cluster.pod("p", activeDeadlineSeconds=1)
    pod = await cluster.phase("p", "Failed")
    assert pod.status.reason == "DeadlineExceeded"


async def test_a_pod_that_somebody_declares_failed_is_stopped(
    node: Agent, cluster: Cluster, driver: Driver, root: Path
) -> None:
    await cluster.claim("c")
    await cluster.pod("p", claims=("c",))
    await cluster.phase("p", "Running")
    await cluster.status("p", {"phase": "Failed", "reason": "Evicted"})
    await eventually(lambda: driver.prepared == set())
    assert (await cluster.get("p")).status.reason == "Evicted"


# Containers


async def test_init_containers_and_sidecars_run_in_order(node: Agent, cluster: Cluster, root: Path) -> None:
    shared = root / "order"
    sidecar = f"trap 'echo end >> {shared}; exit 0' TERM; echo car >> {shared}; while :; do sleep 0.02; done"
    inits = [
        container("one", f"echo one >> {shared}"),
        container("car", sidecar, restartPolicy="Always"),
        container("two", f"sleep 2; echo two >> {shared}"),
    ]
    main = container("main", f"sleep 0.2; echo main >> {shared}")
    await cluster.pod("p", initContainers=inits, containers=[main], restartPolicy="Never")
    pod = await cluster.phase("p", "Succeeded")
    assert shared.read_text().split() == ["one", "car", "two", "main", "end"]
    assert [status.name for status in pod.status.initContainerStatuses] == ["one", "car", "two"]


async def test_a_container_that_fails_is_restarted_later_each_time(node: Agent, cluster: Cluster, root: Path) -> None:
    runs, stay, stays = root / "runs", root / "stay", root / "stays"
    pod = await cluster.pod("p", f"echo run; echo >> {runs}; [ -e {stay} ] && touch {stays} && exec sleep 600; exit 4")
    found = await cluster.until("p", lambda pod: "CrashLoopBackOff" in str(pod.status.containerStatuses))
    assert found.status.phase == "Running"
    await cluster.until("p", lambda pod: pod.status.containerStatuses[0].restartCount >= 2)
    stay.touch()
    await eventually(stays.exists)
    restarts = len(runs.read_text()) - 1
    found = await cluster.until("p", lambda pod: pod.status.containerStatuses[0].restartCount == restarts)
    last = found.status.containerStatuses[0].lastState.terminated
    assert last is not None
    assert last.exitCode == 4
    # The agent copies what a container writes into its log, so the line may come after the file that the container touched.
    await eventually(lambda: lines(root, pod, attempt=restarts) == ["run"])
    assert [lines(root, pod, attempt=restarts - back) for back in (1, 2)] == [["run"], []]


async def test_a_program_that_does_not_exist_is_named(node: Agent, cluster: Cluster) -> None:
    main = {
        "name": "main",
        "image": "none",
        "command": ["nosuch"],
        "env": [{"name": "PATH", "value": "/usr/bin:/bin"}],
    }
    await cluster.pod("p", containers=[main], restartPolicy="Never")
    pod = await cluster.phase("p", "Failed")
    state = pod.status.containerStatuses[0].state.terminated
    assert state is not None
    assert (state.exitCode, state.reason, state.message) == (
        128,
        "StartError",
        'exec: "nosuch": executable file not found in $PATH',
    )


async def test_a_long_name_is_no_obstacle(node: Agent, cluster: Cluster, root: Path) -> None:
    name = "a" * 62 + "." + "b" * 60
    pod = await cluster.pod(name, "echo $HOSTNAME", restartPolicy="Never")
    await cluster.phase(name, "Succeeded")
    assert lines(root, pod) == ["a" * 62]


def started(code: str = "", kind: str = "container") -> float:
    """How many containers were started, or failed to start with a code."""
    name = "kubelet_started_containers_errors_total" if code else "kubelet_started_containers_total"
    labels = {"container_type": kind, **({"code": code} if code else {})}
    return REGISTRY.get_sample_value(name, labels) or 0


async def test_starts_and_failed_starts_are_counted(node: Agent, cluster: Cluster) -> None:
    before = started(), started(kind="init_container"), started("CreateContainerConfigError", "init_container")
    prepare = container("prepare", "true", envFrom=[{"configMapRef": {"name": "later"}}])
    await cluster.pod("p", "true", initContainers=[prepare], restartPolicy="Never")
    await cluster.until("p", lambda pod: "CreateContainerConfigError" in str(pod.status.initContainerStatuses))
    assert started("CreateContainerConfigError", "init_container") > before[2]
    await cluster.client.create(ConfigMap, {"metadata": {"name": "later"}}, namespace=NAMESPACE)
    await cluster.phase("p", "Succeeded")
    assert started() == before[0] + 1
    assert started(kind="init_container") >= before[1] + 2


async def test_a_volume_that_cannot_be_had_is_named_and_waited_for(
    node_client: Client, cluster: Cluster, root: Path, clean: None
) -> None:
    if why := unavailable("bwrap"):
        pytest.skip(why)
    volume = {"name": "keys", "secret": {"secretName": "missing"}}
    main = container("main", "sleep 600", volumeMounts=[{"name": "keys", "mountPath": "/keys"}])
    async with running_agent(node_client, root, runtime="bwrap"):
        await cluster.pod("p", containers=[main], volumes=[volume])
        text = 'MountVolume.SetUp failed for volume "keys" : secret "missing" not found'
        assert await cluster.event("p", "FailedMount") == text
        pod = await cluster.until("p", lambda pod: "missing" in str(pod.status.containerStatuses))
        assert pod.status.containerStatuses[0].state.waiting == ContainerStateWaiting(
            reason="ContainerCreating", message=text
        )


async def test_a_missing_config_map_is_waited_for(node: Agent, cluster: Cluster) -> None:
    main = container("main", "sleep 600", envFrom=[{"configMapRef": {"name": "later"}}])
    await cluster.pod("p", containers=[main])
    pod = await cluster.until("p", lambda pod: "CreateContainerConfigError" in str(pod.status.containerStatuses))
    state = pod.status.containerStatuses[0].state.waiting
    assert state is not None
    assert state.message == 'configmap "later" not found'


# Restarts and outages


async def test_containers_outlive_the_agent_and_are_not_started_twice(
    node_client: Client, cluster: Cluster, driver: Driver, root: Path, clean: None
) -> None:
    await cluster.claim("c")
    await driver.start()
    async with running_agent(node_client, root):
        running = await cluster.pod("running", "echo once; sleep 600", claims=("c",))
        script = f"echo once; while [ ! -e {root}/end ]; do sleep 0.05; done; exit 3"
        ending = await cluster.pod("ending", script, restartPolicy="Never")
        await cluster.phase("running", "Running")
        await cluster.phase("ending", "Running")
    (root / "end").touch()
    await asyncio.sleep(0.6)
    async with running_agent(node_client, root):
        done = await cluster.phase("ending", "Failed")
        state = done.status.containerStatuses[0].state.terminated
        assert state is not None
        assert state.exitCode == 3
        await within(driver.registered.wait())
        pod = await cluster.get("running")
        assert (pod.status.phase, pod.status.containerStatuses[0].restartCount) == ("Running", 0)
        await eventually(lambda: (lines(root, running), lines(root, ending)) == (["once"], ["once"]))
        assert len(driver.called("prepare")) == 1
        await cluster.delete("running")
        await cluster.gone("running")


async def test_what_is_no_longer_wanted_is_ended_and_unprepared_after_a_restart(
    node_client: Client, cluster: Cluster, driver: Driver, root: Path, client: Client, clean: None
) -> None:
    await cluster.claim("c")
    await driver.start()
    async with running_agent(node_client, root):
        await cluster.pod("p", claims=("c",))
        await cluster.phase("p", "Running")
    await cluster.delete("p", grace=0)
    await client.patch(ResourceClaim, "c", {"status": {"reservedFor": None}}, NAMESPACE, subresource="status")
    await client.delete(ResourceClaim, "c", NAMESPACE)
    async with running_agent(node_client, root):
        await eventually(lambda: nothing_left(root, driver))


class Cut:
    """A client whose connection can be cut."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name == "watch":
            return self._watch
        if not self.cut or not asyncio.iscoroutinefunction(method):
            return method

        async def away(*arguments: Any, **more: Any) -> None:
            raise ServiceUnavailable("the server is away")

        return away

    async def _watch(self, *arguments: Any, **more: Any) -> Any:
        async for batch in self._client.watch(*arguments, **more):
            if self.cut:
                raise ServiceUnavailable("the server is away")
            yield batch


async def test_without_api_server_containers_restart_with_their_devices(
    node_client: Client, cluster: Cluster, driver: Driver, root: Path, clean: None
) -> None:
    connection = Cut(node_client)
    await driver.start()
    async with running_agent(connection, root):  # type: ignore[arg-type]  # stands for the client it has
        claim = await cluster.claim("c")
        script = f"echo $GPU; [ -e {root}/go ] && exec sleep 600; while [ ! -e {root}/go ]; do sleep 0.05; done"
        pod = await cluster.pod("p", script, claims=("c",))
        await eventually(lambda: lines(root, pod))
        connection.cut = True
        (root / "go").touch()
        await eventually(lambda: lines(root, pod, attempt=1) == [claim.metadata.uid])
        connection.cut = False
        await cluster.until("p", lambda pod: pod.status.containerStatuses[0].restartCount >= 1)


async def test_a_corrupt_checkpoint_is_reported_on_the_node(node_client: Client, cluster: Cluster, root: Path) -> None:
    (root / "claims.json").write_text("not a checkpoint")
    async with running_agent(node_client, root):
        text = await cluster.event(NODE, "CorruptCheckpoint")
    assert str(root / "claims.json.corrupt-1") in text


async def test_a_root_is_for_the_agents_user_alone(node_client: Client, root: Path) -> None:
    os.chmod(root, 0o777)
    async with running_agent(node_client, root):
        assert os.stat(root).st_mode & 0o777 == 0o700
    os.chown(root, 12345, -1) if os.geteuid() == 0 else pytest.skip("only root gives files away")
    with pytest.raises(AgentError, match="belongs to another user"):
        async with running_agent(node_client, root):
            pass


async def test_process_leaves_a_container_waiting_that_it_cannot_mount_volumes_for(
    node: Agent, cluster: Cluster, root: Path
) -> None:
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    init = container("init", "touch /data/x", **mount)
    await cluster.pod("p", initContainers=[init], volumes=[{"name": "data", "emptyDir": {}}])
    text = "the runtime process cannot apply: volume at /data"
    pod = await cluster.until("p", lambda pod: text in str(pod.status.initContainerStatuses))
    waiting = pod.status.initContainerStatuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "CreateContainerError"
    assert text in await cluster.event("p", "Failed")
    assert not lines(root, pod, "init")


async def test_a_root_has_one_agent(node: Agent, node_client: Client, root: Path) -> None:
    with pytest.raises(AgentError, match="another agent uses"):
        async with running_agent(node_client, root):
            pass


# The gate


async def test_with_the_gate_off_new_pods_run_without_devices_and_old_ones_are_left_alone(
    node_client: Client, cluster: Cluster, driver: Driver, root: Path, clean: None
) -> None:
    await cluster.claim("c")
    await driver.start()
    async with running_agent(node_client, root):
        old = await cluster.pod("old", f"echo run; while [ ! -e {root}/go ]; do sleep 0.05; done", claims=("c",))
        await cluster.phase("old", "Running")
    async with running_agent(node_client, root, gates=FeatureGates.parse("DynamicResourceAllocation=false")):
        new = await cluster.pod("new", 'echo "device: $GPU"; sleep 600', claims=("c",))
        await cluster.event("new", "DevicesDisabled", "runs without its devices")
        await eventually(lambda: lines(root, new) == ["device: "])
        assert (await cluster.get("old")).status.containerStatuses[0].restartCount == 0
        (root / "go").touch()
        pod = await cluster.until("old", lambda pod: "DevicesDisabled" in str(pod.status.containerStatuses))
        assert (pod.status.phase, lines(root, old)) == ("Running", ["run"])
        await cluster.delete("old")
        await cluster.gone("old")
        assert driver.prepared == set()


# The node itself


async def test_the_node_registers_with_labels_capacity_and_lease(
    node_client: Client, client: Client, root: Path
) -> None:
    async with running_agent(node_client, root, labels={"zone": "a"}, capacity={"pods": "7"}):
        node = await client.get(Node, NODE)
        lease = await client.get(Lease, NODE, "kube-node-lease")
    assert node.metadata.labels["zone"] == "a"
    assert node.metadata.labels["kubernetes.io/hostname"] == NODE
    assert (node.status.capacity["pods"], node.status.allocatable["pods"]) == ("7", "7")
    assert {c.type: c.status for c in node.status.conditions}["Ready"] == "True"
    assert lease.spec.holderIdentity == NODE
    assert [owner.uid for owner in lease.metadata.ownerReferences] == [node.metadata.uid]


async def test_a_node_that_was_deleted_comes_back(node_client: Client, client: Client, root: Path) -> None:
    clock = ManualClock(1_800_000_000.0)
    async with running_agent(node_client, root, clock=clock, over=FakeRuntime(clock)):
        first = (await client.get(Lease, NODE, "kube-node-lease")).spec.renewTime
        await clock.advance(11)
        second = (await client.get(Lease, NODE, "kube-node-lease")).spec.renewTime
        assert first is not None
        assert second is not None
        assert second > first
        await client.delete(Node, NODE)
        await client.delete(Lease, NODE, "kube-node-lease")  # as the garbage collector would
        await clock.advance(11)
        await client.get(Node, NODE)


def slice_tree(name: str, driver: str, node: str) -> dict[str, Any]:
    return objects.resource_slice(name, driver=driver, node=node, pool=name, devices=[])


class FirstSight:
    """A client that notes what there is when the node is first mentioned to the server."""

    def __init__(self, client: Client, root: Path) -> None:
        self._client = client
        self._root = root
        self.slices: list[str] | None = None
        self.directories: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def noted(*args: Any, **more: Any) -> Any:
            if args and args[0] is Node and self.slices is None:
                self.slices = [found.metadata.name for found in (await self._client.list(ResourceSlice)).items]
                self.directories = {path.name for path in self._root.iterdir() if path.is_dir()}
            return await method(*args, **more)

        return noted if name in ("create", "patch", "get") else method


async def test_a_node_becomes_ready_after_its_old_slices_are_gone_and_its_directories_exist(
    client: Client, root: Path
) -> None:
    await client.create(ResourceSlice, slice_tree("stale", NAME, NODE))
    seen = FirstSight(client, root)
    async with running_agent(cast(Client, seen), root):
        assert seen.slices == []
        assert {"plugins_registry", "plugins", "cdi"} <= seen.directories


async def test_slices_go_at_the_agents_start_and_with_their_driver(
    node_client: Client, client: Client, driver: Driver, root: Path, hasty: None
) -> None:
    async def names() -> list[str]:
        return sorted(found.metadata.name for found in (await client.list(ResourceSlice)).items)

    for name, of, where in (("stale", NAME, NODE), ("elsewhere", NAME, "node-b")):
        await client.create(ResourceSlice, slice_tree(name, of, where))
    async with running_agent(node_client, root):
        assert await names() == ["elsewhere"]
        await driver.start()
        await within(driver.registered.wait())
        for name, of in (("mine", NAME), ("others", "other.example")):
            await client.create(ResourceSlice, slice_tree(name, of, NODE))
        await driver.stop()

        async def only_others() -> bool:
            return await names() == ["elsewhere", "others"]

        await eventually(only_others)


async def test_a_node_says_whether_anything_runs_its_pods(node_client: Client, cluster: Cluster, root: Path) -> None:
    async with running_agent(node_client, root, runtime="fake"):
        assert (await cluster.client.get(Node, NODE)).metadata.annotations == {RUNS_NO_PODS: "fake"}
        await cluster.pod("p")
        assert (await cluster.phase("p", "Running")).status.podIP.startswith("198.19.")
        await cluster.delete("p")
        await cluster.gone("p")
    async with running_agent(node_client, root):
        assert (await cluster.client.get(Node, NODE)).metadata.annotations == {}


@pytest.mark.parametrize("runtime", ["process", "bwrap", "oci"])
async def test_a_program_that_cannot_be_run_counts_as_a_failed_start(
    node_client: Client, cluster: Cluster, root: Path, clean: None, runtime: str
) -> None:
    if why := unavailable(runtime):
        pytest.skip(f"{runtime}: {why}")
    missing = {"name": "init", "image": "none", "command": ["/no/such"]}
    async with running_agent(node_client, root, runtime=runtime):
        before = started("RunContainerError"), started("RunContainerError", "init_container"), started()
        await cluster.pod("good", "exit 1", restartPolicy="Never")
        await cluster.phase("good", "Failed")
        await cluster.pod("bad", containers=[{**missing, "name": "main"}], restartPolicy="Never")
        await cluster.pod("worse", initContainers=[missing], restartPolicy="Never")
        await cluster.phase("bad", "Failed")
        await cluster.phase("worse", "Failed")
        after = started("RunContainerError"), started("RunContainerError", "init_container"), started()
    assert after == (before[0] + 1, before[1] + 1, before[2] + 2)


def without_driver() -> float:
    return REGISTRY.get_sample_value("dra_resource_claims_without_driver", {"driver_name": NAME}) or 0


async def test_claims_whose_driver_is_uninstalled_are_counted_and_their_pods_told(
    node_client: Client, cluster: Cluster, root: Path, driver: Driver, clean: None, hasty: None
) -> None:
    async with running_agent(node_client, root):
        await driver.start()
        await cluster.claim("c")
        await cluster.claim("d")
        await cluster.pod("p", claims=("c", "d"))
        await cluster.pod("other")
        await cluster.phase("p", "Running")
        await cluster.phase("other", "Running")
        assert without_driver() == 0
        await driver.stop()
        await eventually(lambda: without_driver() == 2)
        message = await cluster.event("p", "DRADriverGone")
        assert message.startswith(f"DRA driver {NAME} is not registered any more: ResourceClaim ")
        assert not [reason for reason, _ in await cluster.events("other") if reason == "DRADriverGone"]
    async with running_agent(node_client, root):  # the next agent knows it from the checkpoint
        await eventually(lambda: without_driver() == 2)
        await driver.start()
        await eventually(lambda: without_driver() == 0)


def port_container(name: str, port: int, **more: Any) -> dict[str, Any]:
    ports = [{"containerPort": 80, "hostPort": port, **more}]
    return {"name": name, "image": "none", "command": ["sleep", "600"], "ports": ports}


async def test_a_pod_whose_host_port_is_taken_is_told_by_whom(node: Agent, cluster: Cluster) -> None:
    await cluster.pod("holder", containers=[port_container("a", 8080), port_container("b", 9090)])
    await cluster.phase("holder", "Running")
    await cluster.pod("late", containers=[port_container("main", 9090, hostIP="127.0.0.1")])
    failed = await cluster.phase("late", "Failed")
    text = f"Pod was rejected: host port 9090/TCP is held by pod {NAMESPACE}/holder"
    assert (failed.status.reason, failed.status.message) == ("NodePorts", text)
    assert await cluster.event("late", "NodePorts") == text
    await cluster.pod("udp", containers=[port_container("main", 9090, protocol="UDP")])
    await cluster.phase("udp", "Running")
    await cluster.delete("holder")
    await cluster.gone("holder")
    await cluster.pod("next", containers=[port_container("main", 9090)])
    await cluster.phase("next", "Running")


async def test_a_pod_keeps_its_host_port_when_the_agent_is_restarted(
    node_client: Client, cluster: Cluster, root: Path, clean: None
) -> None:
    async with running_agent(node_client, root):
        await cluster.pod("holder", containers=[port_container("main", 8080)])
        await cluster.phase("holder", "Running")
    await cluster.pod("late", containers=[port_container("main", 8080)])
    async with running_agent(node_client, root):
        await cluster.phase("late", "Failed")
        assert (await cluster.get("holder")).status.phase == "Running"


class TestEmptyDirLimits:
    """Volumes that hold more than their limit."""

    async def filled(self, cluster: Cluster, script: str, limit: str = "1Mi", **spec: Any) -> None:
        volumes = [
            {"name": "free", "emptyDir": {}},
            {"name": "roomy", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "cache", "emptyDir": {"sizeLimit": limit}},
        ]
        mounts = [{"name": volume["name"], "mountPath": f"/data/{volume['name']}"} for volume in volumes]
        shell = {"name": "main", "image": "none", "command": ["/bin/sh", "-c", script], "volumeMounts": mounts}
        await cluster.pod("p", containers=[shell], volumes=volumes, **spec)

    @pytest.fixture
    async def agent(self, node_client: Client, root: Path, clean: None) -> AsyncIterator[Agent]:
        if why := unavailable("bwrap"):
            pytest.skip(why)
        async with running_agent(node_client, root, runtime="bwrap", usage_seconds=0.1) as running:
            yield running

    async def test_a_pod_that_exceeds_one_is_evicted(self, agent: Agent, cluster: Cluster) -> None:
        script = (
            "trap '' TERM; mkdir -p /data/cache/a/b; head -c 3000000 /dev/zero >/data/cache/a/b/file;"
            "while true; do sleep 0.1; done"
        )
        await self.filled(cluster, script, terminationGracePeriodSeconds=600)
        failed = await cluster.phase("p", "Failed")
        text = 'Usage of EmptyDir volume "cache" exceeds the limit "1Mi". '
        assert (failed.status.reason, failed.status.message) == ("Evicted", text)
        [condition] = [c for c in failed.status.conditions if c.type == "DisruptionTarget"]
        assert (condition.status, condition.reason, condition.message) == ("True", "TerminationByKubelet", text)
        assert await cluster.event("p", "Evicted") == text
        assert failed.status.containerStatuses[0].state.terminated is not None

    async def test_a_pod_within_its_limits_runs_on(self, agent: Agent, cluster: Cluster) -> None:
        """Holes take no room, a second name for a file takes none either, and links are not followed."""
        script = (
            "cd /data/cache; head -c 700000 /dev/zero >f; ln f g; ln f h; truncate -s 300M sparse; ln -s / root;"
            "head -c 3000000 /dev/zero >/data/free/f; head -c 3000000 /dev/zero >/data/roomy/f; touch done; sleep 600"
        )
        await self.filled(cluster, script)
        pod = await cluster.phase("p", "Running")
        volumes = agent._settings.root / "pods" / pod.metadata.uid / "volumes"
        await eventually((volumes / "cache" / "done").exists)
        assert 600_000 < await emptydirs.usage(volumes / "cache", 10**9) < 2**20
        await linger(0.5)  # several looks
        assert (await cluster.get("p")).status.phase == "Running"

    async def test_a_pod_that_runs_already_is_measured_by_the_next_agent(
        self, node_client: Client, cluster: Cluster, root: Path, clean: None
    ) -> None:
        if why := unavailable("bwrap"):
            pytest.skip(why)
        async with running_agent(node_client, root, runtime="bwrap"):
            await self.filled(cluster, "while ! test -e /data/free/go; do sleep 0.05; done; sleep 600")
            pod = await cluster.phase("p", "Running")
        (root / "pods" / pod.metadata.uid / "volumes" / "cache" / "f").write_bytes(bytes(3_000_000))
        async with running_agent(node_client, root, runtime="bwrap", usage_seconds=0.1):
            assert (await cluster.phase("p", "Failed")).status.reason == "Evicted"

    async def test_critical_pods_stay(self) -> None:
        tree = objects.pod("p", volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}])
        assert emptydirs.size_limits(msgspec.convert(tree, Pod)) == {"v": "1Mi"}
        tree["spec"]["priority"] = emptydirs.CRITICAL
        assert emptydirs.size_limits(msgspec.convert(tree, Pod)) == {}

    async def test_files_are_counted_beside_the_event_loop_and_in_turns(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(200):
            (tmp_path / f"{number}").write_bytes(bytes(5000))
        threads, turns = set(), 0
        go_on = emptydirs.VolumeCount.go_on

        def noted(counting: Any) -> float | None:
            nonlocal turns
            turns += 1
            threads.add(threading.get_ident())
            return go_on(counting)

        monkeypatch.setattr(emptydirs.VolumeCount, "go_on", noted)
        monkeypatch.setattr(emptydirs, "TURN_SECONDS", 0.0)
        assert await emptydirs.usage(tmp_path, 10**12) >= 200 * 5000
        assert threading.get_ident() not in threads
        assert turns > 100
