"""What a simulated node reports about a pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.core import Pod
from dray.sim import lifecycle
from tests import objects

NOW = "2024-01-01T00:00:00Z"


def pod_with_uid(**spec: Any) -> Pod:
    tree = objects.pod(namespace="default", metadata={"uid": "0a0b0c00-0000-0000-0000-000000000000"}, **spec)
    return msgspec.convert(tree, Pod)


def test_a_running_pod_is_ready_with_all_containers() -> None:
    init = [{"name": "init", "image": "i"}]
    status = lifecycle.running(pod_with_uid(initContainers=init), NOW, "198.18.0.1", "198.19.11.12", restarts=2)
    assert (status["phase"], status["hostIP"], status["podIP"]) == ("Running", "198.18.0.1", "198.19.11.12")
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
    [container] = status["containerStatuses"]
    assert (container["ready"], container["restartCount"], "running" in container["state"]) == (True, 2, True)
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


@pytest.mark.parametrize(("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (7, "Failed", "Error")])
def test_a_finished_pod_says_how_it_ended(code: int, phase: str, reason: str) -> None:
    status = lifecycle.finished(pod_with_uid(), NOW, code)
    assert status["phase"] == phase
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (code, reason)
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "False"


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [("Always", 0, True), ("Always", 1, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_the_restart_policy_decides_whether_it_runs_again(policy: str, code: int, again: bool) -> None:
    assert lifecycle.restarts_after(pod_with_uid(restartPolicy=policy), code) is again
