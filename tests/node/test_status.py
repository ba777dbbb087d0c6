"""What a node reports about a pod."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.types.core import Pod, PodStatus
from dray.node.lifecycle import ContainerWaits
from dray.node.runtime import ContainerAttempt, ContainerKey
from dray.node.status import EDITS_APPLIED, PodReport, status_tree
from tests import objects

NOW = 1_800_000_000.0


def pod_with(**status: Any) -> Pod:
    tree = objects.pod(
        namespace="ns",
        metadata={"uid": "u"},
        status=status,
        containers=[{"name": "main", "image": "image:1"}],
        initContainers=[{"name": "init", "image": "image:2"}],
    )
    return msgspec.convert(tree, Pod)


def reported(pod_: Pod, phase: str, *attempts: ContainerAttempt, **more: Any) -> PodStatus:
    histories: dict[str, list[ContainerAttempt]] = {}
    for attempt in attempts:
        histories.setdefault(attempt.key.container, []).append(attempt)
    report = PodReport(phase, histories, host_address="1.2.3.4", runtime="process", **more)
    tree = status_tree(pod_, report, NOW)
    for condition in tree["conditions"]:  # nulls delete in a patch; a struct has none
        for name in ("reason", "message"):
            condition[name] = condition[name] or ""
    return msgspec.convert(tree, PodStatus)


def runs(name: str, attempt: int = 0) -> ContainerAttempt:
    return ContainerAttempt(ContainerKey("u", name, attempt), NOW - 50)


def ended(name: str, code: int = 0, attempt: int = 0) -> ContainerAttempt:
    return ContainerAttempt(
        ContainerKey("u", name, attempt), NOW - 9, 0, NOW - 2, code, "Error" if code else "Completed", "said"
    )


def conditions(status: PodStatus) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in status.conditions}


def test_a_pod_that_waits_says_for_what() -> None:
    status = reported(pod_with(), "Pending")
    [main] = status.containerStatuses
    assert main.state.waiting is not None
    assert main.state.waiting.reason == "ContainerCreating"
    assert conditions(status)["Initialized"] == ("False", "ContainersNotInitialized")
    assert status.podIP == ""
    while_init = reported(pod_with(), "Pending", runs("init"), pod_address="1.2.3.4")
    assert while_init.containerStatuses[0].state.waiting == msgspec.structs.replace(
        main.state.waiting, reason="PodInitializing"
    )


def test_a_running_pod_is_ready() -> None:
    status = reported(pod_with(), "Running", ended("init"), runs("main", 3), initialized=True, pod_address="1.2.3.4")
    [init], [main] = status.initContainerStatuses, status.containerStatuses
    assert (main.ready, main.started, main.restartCount) == (True, True, 3)
    assert main.state.running is not None
    assert main.state.running.startedAt == "2027-01-15T07:59:10Z"
    assert main.containerID == "process://u/main/3"
    assert init.ready
    assert init.state.terminated is not None
    assert conditions(status) == {
        "PodReadyToStartContainers": ("True", ""),
        "Initialized": ("True", ""),
        "Ready": ("True", ""),
        "ContainersReady": ("True", ""),
    }
    assert (status.podIP, status.hostIP) == ("1.2.3.4", "1.2.3.4")


def test_a_restarted_container_tells_how_it_ended_before() -> None:
    status = reported(pod_with(), "Running", ended("init"), ended("main", 2, 0), runs("main", 1), initialized=True)
    [main] = status.containerStatuses
    assert main.lastState.terminated is not None
    assert (main.lastState.terminated.exitCode, main.lastState.terminated.message) == (2, "said")


def test_a_container_that_waits_for_its_restart_tells_both() -> None:
    waiting = {"main": ContainerWaits("CrashLoopBackOff", "back-off 10s")}
    status = reported(pod_with(), "Running", ended("init"), ended("main", 2, 4), initialized=True, waiting=waiting)
    [main] = status.containerStatuses
    assert main.state.waiting is not None
    assert (main.state.waiting.reason, main.state.waiting.message) == ("CrashLoopBackOff", "back-off 10s")
    assert main.lastState.terminated is not None
    assert main.restartCount == 4
    assert conditions(status)["Ready"] == ("False", "ContainersNotReady")


def test_a_finished_pod_is_no_longer_ready() -> None:
    status = reported(pod_with(), "Succeeded", ended("init"), ended("main"), initialized=True)
    assert conditions(status)["Ready"] == ("False", "PodCompleted")
    failed = reported(pod_with(), "Failed", ended("init"), ended("main", 1), initialized=True, reason="R", message="M")
    assert conditions(failed)["ContainersReady"] == ("False", "PodFailed")
    assert (failed.reason, failed.message) == ("R", "M")


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    known = [{"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    status = reported(pod_with(conditions=known), "Running", ended("init"), runs("main"), initialized=True)
    times = {condition.type: condition.lastTransitionTime for condition in status.conditions}
    assert times["Ready"] == "2020-01-01T00:00:00Z"
    assert times["Initialized"] == "2027-01-15T08:00:00Z"


def test_what_was_not_applied_is_a_condition() -> None:
    status = reported(pod_with(), "Running", runs("main"), not_applied=["container main: mount of /a at /b"])
    [condition] = [c for c in status.conditions if c.type == EDITS_APPLIED]
    assert (condition.status, condition.message) == ("False", "container main: mount of /a at /b")
