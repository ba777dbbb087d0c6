"""Security contexts: what they add up to, and what becomes of them under each runtime."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.api.types.core import Pod
from dray.client import Client
from dray.node.environment import ConfigProblem
from dray.node.runtime import BindMount, ContainerStartError, Runtime
from dray.node.security import ALL_CAPABILITIES, ContainerSecurity, check_non_root, profiles, security_of
from tests.node.cluster import Cluster
from tests.node.conftest import running_agent
from tests.node.test_agent import container
from tests.node.test_runtimes import EXECUTING, end, opened, output, shell, unavailable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def pod_with(pod: dict[str, Any], own: dict[str, Any]) -> Pod:
    spec = {"securityContext": pod, "containers": [{"name": "c", "securityContext": own}]}
    return msgspec.convert({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec}, Pod)


def security(pod: dict[str, Any], own: dict[str, Any]) -> ContainerSecurity:
    typed = pod_with(pod, own)
    return security_of(typed, typed.spec.containers[0])


def test_a_container_overrules_its_pod() -> None:
    found = security(
        {"runAsUser": 1, "runAsGroup": 2, "runAsNonRoot": True, "fsGroup": 3, "supplementalGroups": [4, 3]},
        {"runAsUser": 5, "runAsNonRoot": False, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True},
    )
    assert (found.user, found.group, found.groups) == (5, 2, (4, 3))
    assert (found.non_root, found.no_new_privileges, found.readonly_root) == (False, True, True)


@pytest.mark.parametrize(
    ("asked", "has", "lacks"),
    [
        ({}, {"CHOWN", "NET_RAW"}, {"SYS_ADMIN"}),
        ({"drop": ["ALL"]}, set(), {"CHOWN"}),
        ({"drop": ["ALL"], "add": ["CAP_NET_BIND_SERVICE"]}, {"NET_BIND_SERVICE"}, {"CHOWN"}),
        ({"drop": ["CHOWN"], "add": ["SYS_ADMIN"]}, {"SYS_ADMIN", "KILL"}, {"CHOWN"}),
        ({"add": ["ALL"]}, set(ALL_CAPABILITIES), set()),
    ],
)
def test_capabilities(asked: dict[str, Any], has: set[str], lacks: set[str]) -> None:
    found = set(security({}, {"capabilities": asked}).capabilities)
    assert has <= found
    assert not lacks & found


def test_what_must_not_run_as_root_does_not() -> None:
    pod = pod_with({"runAsNonRoot": True}, {})
    asked = security_of(pod, pod.spec.containers[0])
    with pytest.raises(ConfigProblem, match=r'container has runAsNonRoot and image will run as root \(pod: "p_n\(u\)"'):
        check_non_root(asked, 0, pod, "c")
    check_non_root(asked, 7, pod, "c")
    zero = security({"runAsNonRoot": True}, {"runAsUser": 0})
    with pytest.raises(ConfigProblem, match="container's runAsUser breaks non-root policy"):
        check_non_root(zero, 0, pod, "c")


def test_profiles_that_nobody_gives_are_named() -> None:
    pod = pod_with({"seccompProfile": {"type": "RuntimeDefault"}}, {"appArmorProfile": {"type": "Unconfined"}})
    assert [*profiles(pod, pod.spec.containers[0])] == ["seccomp profile RuntimeDefault"]


@pytest.fixture(params=EXECUTING)
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    runtime = opened(request.param, tmp_path)
    yield runtime
    await end(runtime)


@as_root
async def test_the_user_is_the_one_asked_for(runtime: Runtime) -> None:
    script = "id -u; id -g; touch /etc/dray-test 2>/dev/null || echo kept"
    found = await output(runtime, shell(script, security=ContainerSecurity(user=1234, group=2345)))
    assert found == ["1234", "2345", "kept"]


@as_root
async def test_groups_are_given_or_refused(runtime: Runtime) -> None:
    task = shell("id -G", security=ContainerSecurity(user=1234, group=2345, groups=(3456, 4567)))
    if runtime.name == "bwrap":
        with pytest.raises(ContainerStartError, match="the runtime bwrap cannot apply: groups 3456, 4567"):
            await runtime.start(task)
    else:
        assert await output(runtime, task) == ["2345 3456 4567"]


@as_root
async def test_rights_are_limited_unless_privileged(runtime: Runtime, tmp_path: Path) -> None:
    """A device node and a mount show what a container may do to the host."""
    script = "mount -t tmpfs none /mnt 2>/dev/null && echo mounts; grep CapEff /proc/self/status"
    if runtime.name == "process":
        assert (await output(runtime, shell(f"unshare -m sh -c '{script}'")))[0] == "mounts"
        return
    plain = await output(runtime, shell(script + "; true"))
    assert len(plain) == 1
    few = await output(runtime, shell("grep CapEff /proc/self/status", 1, security=ContainerSecurity(drop=("ALL",))))
    assert few == ["CapEff:\t0000000000000000"]
    whole = await output(runtime, shell(script, 2, security=ContainerSecurity(privileged=True)))
    assert whole[0] == "mounts"
    assert whole[1] > plain[0]


async def test_no_rights_are_gained_where_that_is_asked_for(runtime: Runtime) -> None:
    found = await output(
        runtime, shell("grep NoNewPrivs /proc/self/status", security=ContainerSecurity(no_new_privileges=True))
    )
    assert found == ["NoNewPrivs:\t1"]


async def test_a_root_file_system_is_read_only_where_that_is_asked_for(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    script = "touch /tmp/x 2>/dev/null && echo writes; touch /tmp/v/x && echo volume"
    mounts = (BindMount(str(tmp_path / "v"), "/tmp/v"),)
    if runtime.name == "process":
        with pytest.raises(ContainerStartError, match="cannot apply: readOnlyRootFilesystem"):
            await runtime.start(shell(script, security=ContainerSecurity(readonly_root=True)))
        return
    assert await output(runtime, shell(script, mounts=mounts)) == ["writes", "volume"]
    task = shell(script, 1, mounts=mounts, security=ContainerSecurity(readonly_root=True))
    assert await output(runtime, task) == ["volume"]


async def test_containers_do_not_see_the_timing_of_the_host(runtime: Runtime) -> None:
    if runtime.name != "oci":
        pytest.skip("process and bwrap show what any program of the user sees")
    script = "wc -c < /proc/interrupts"
    assert await output(runtime, shell(script)) == ["0"]
    privileged = shell(script, 1, security=ContainerSecurity(privileged=True))
    assert await output(runtime, privileged) != ["0"]


async def test_mounts_that_must_reach_the_host_are_refused_where_they_cannot(runtime: Runtime, tmp_path: Path) -> None:
    if runtime.name != "bwrap":
        pytest.skip("process mounts nothing; oci can")
    mounts = (BindMount(str(tmp_path), "/data", propagation="Bidirectional"),)
    with pytest.raises(ContainerStartError, match="mountPropagation Bidirectional at /data"):
        await runtime.start(shell("true", mounts=mounts))


async def test_what_cannot_be_applied_stands_on_the_pod(
    node_client: Client, cluster: Cluster, root: Path, clean: None
) -> None:
    if why := unavailable("bwrap"):
        pytest.skip(why)
    async with running_agent(node_client, root, runtime="bwrap"):
        await cluster.pod("p", securityContext={"fsGroup": 7, "seccompProfile": {"type": "RuntimeDefault"}})
        text = "the runtime bwrap cannot apply: groups 7"
        pod = await cluster.until("p", lambda pod: text in str(pod.status.containerStatuses))
        waiting = pod.status.containerStatuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "CreateContainerError"
        said = await cluster.event("p", "SecurityContextNotApplied")
        assert said == "container main: the runtime bwrap cannot apply: seccomp profile RuntimeDefault"
        kernel = {"sysctls": [{"name": "kernel.x", "value": "1"}]}
        await cluster.pod("q", containers=[container("main", "true")], securityContext=kernel)
        assert "sysctl kernel.x" in await cluster.event("q", "Failed")
