"""What to do next about a pod's containers: pods and histories in, decisions out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.core import Pod
from dray.node.lifecycle import PodSteps, RestartDelays, decide, next_to_stop, quick_ends
from dray.node.runtime import ContainerAttempt, ContainerKey
from tests import objects

NOW = 10_000.0
DELAYS = RestartDelays()


def pod_of(*containers: str, init: tuple[str, ...] = (), sidecars: tuple[str, ...] = (), policy: str = "Always") -> Pod:
    def container(name: str) -> dict[str, Any]:
        return {"name": name, "image": "i", **({"restartPolicy": "Always"} if name in sidecars else {})}

    tree = objects.pod(
        namespace="ns",
        metadata={"uid": "u"},
        restartPolicy=policy,
        containers=[container(name) for name in containers],
        initContainers=[container(name) for name in init],
    )
    return msgspec.convert(tree, Pod)


def runs(name: str, attempt: int = 0) -> ContainerAttempt:
    return ContainerAttempt(ContainerKey("u", name, attempt), NOW - 50)


def ended(
    name: str, code: int = 0, *, ago: float = 1.0, ran: float = 1.0, quick: int = 0, attempt: int = 0
) -> ContainerAttempt:
    return ContainerAttempt(
        ContainerKey("u", name, attempt), NOW - ago - ran, quick, NOW - ago, code, "Error" if code else "Completed"
    )


def decided(pod_: Pod, *attempts: ContainerAttempt) -> PodSteps:
    histories: dict[str, list[ContainerAttempt]] = {}
    for attempt in attempts:
        histories.setdefault(attempt.key.container, []).append(attempt)
    return decide(pod_, histories, NOW, DELAYS)


def test_all_containers_start_together() -> None:
    assert decided(pod_of("a", "b")).start == ["a", "b"]
    assert decided(pod_of("a", "b"), runs("a")).start == ["b"]
    assert decided(pod_of("a", "b"), runs("a"), runs("b")).start == []


def test_init_containers_run_one_after_the_other() -> None:
    spec = pod_of("main", init=("one", "two"))
    assert decided(spec).start == ["one"]
    assert decided(spec, runs("one")).start == []
    assert decided(spec, ended("one")).start == ["two"]
    assert not decided(spec, ended("one"), runs("two")).initialized
    done = decided(spec, ended("one"), ended("two"))
    assert (done.start, done.initialized) == (["main"], True)


def test_sidecars_keep_running_beside_the_rest() -> None:
    spec = pod_of("main", init=("car", "init"), sidecars=("car",))
    assert decided(spec).start == ["car"]
    assert decided(spec, runs("car")).start == ["init"]
    assert decided(spec, runs("car"), ended("init")).start == ["main"]
    assert decided(spec, ended("car"), ended("init"), runs("main")).start == ["car"]


def test_a_failed_init_container_is_run_again_unless_the_pod_says_never() -> None:
    assert decided(pod_of("main", init=("one",), policy="OnFailure"), ended("one", 1)).start == ["one"]
    failed = decided(pod_of("main", init=("one",), policy="Never"), ended("one", 1))
    assert (failed.start, failed.phase) == ([], "Failed")


def test_init_containers_are_not_run_again_once_the_others_have_begun() -> None:
    assert decided(pod_of("main", init=("one",)), ended("main", 1)).start == ["main"]


@pytest.mark.parametrize(
    ("policy", "code", "start", "phase"),
    [
        ("Always", 0, ["a"], ""),
        ("Always", 1, ["a"], ""),
        ("OnFailure", 0, [], "Succeeded"),
        ("OnFailure", 1, ["a"], ""),
        ("Never", 0, [], "Succeeded"),
        ("Never", 1, [], "Failed"),
    ],
)
def test_the_restart_policy_decides(policy: str, code: int, start: list[str], phase: str) -> None:
    decision = decided(pod_of("a", policy=policy), ended("a", code))
    assert (decision.start, decision.phase) == (start, phase)


@pytest.mark.parametrize(
    ("operator", "code", "again"), [("In", 42, True), ("In", 7, False), ("NotIn", 42, False), ("NotIn", 7, True)]
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_rule_of_a_container_wins_over_the_policies(kind: str, operator: str, code: int, again: bool) -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": operator, "values": [42]}}
    own = {"name": "a", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]} | {kind: [own]}
    made = msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}, Pod)
    decision = decided(made, ended("a", code))
    assert (decision.start, decision.phase) == ((["a"], "") if again else ([], "Failed"))


def test_a_pod_is_over_when_all_containers_are() -> None:
    spec = pod_of("a", "b", policy="Never")
    assert decided(spec, ended("a"), runs("b")).phase == ""
    assert decided(spec, ended("a"), ended("b", 3)).phase == "Failed"


def test_sidecars_are_stopped_last_first_when_the_rest_is_over() -> None:
    spec = pod_of("main", init=("one", "two"), sidecars=("one", "two"), policy="Never")
    first = decided(spec, runs("one"), runs("two"), ended("main"))
    assert (first.stop, first.phase) == (["two"], "")
    second = decided(spec, runs("one"), ended("two", 143), ended("main"))
    assert (second.stop, second.start, second.phase) == (["one"], [], "")
    assert decided(spec, ended("one", 143), ended("two", 143), ended("main")).phase == "Succeeded"


def test_a_pod_that_is_to_end_stops_its_sidecars_last() -> None:
    spec = pod_of("main", init=("car",), sidecars=("car",))
    assert next_to_stop(spec, {"main": [runs("main")], "car": [runs("car")]}) == ["main"]
    assert next_to_stop(spec, {"main": [ended("main")], "car": [runs("car")]}) == ["car"]
    assert next_to_stop(spec, {"main": [ended("main")], "car": [ended("car")]}) == []


def test_restarts_are_delayed_more_and_more() -> None:
    assert [DELAYS.before(n) for n in range(9)] == [0, 0, 10, 20, 40, 80, 160, 300, 300]
    assert DELAYS.before(10_000) == 300


def test_a_container_that_keeps_failing_waits() -> None:
    decision = decided(pod_of("a"), ended("a", 1, ago=4, quick=2, attempt=2))
    assert decision.start == []
    assert decision.again == 16
    reason, message = decision.waiting["a"]
    assert (reason, message) == ("CrashLoopBackOff", "back-off 20s restarting failed container=a pod=p_ns(u)")
    assert decided(pod_of("a"), ended("a", 1, ago=21, quick=2, attempt=2)).start == ["a"]


def test_a_container_that_ran_long_starts_over() -> None:
    assert quick_ends(None) == 0
    assert quick_ends(ended("a", 1, quick=4)) == 5
    assert quick_ends(ended("a", 1, quick=4, ran=601)) == 1
    assert decided(pod_of("a"), ended("a", 1, ago=0, ran=601, quick=7)).start == ["a"]


def ephemeral(status: dict[str, Any] | None = None) -> Pod:
    tree: dict[str, Any] = msgspec.to_builtins(pod_of("main", init=("init",)))
    tree["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "i"}]
    tree["status"] = {"ephemeralContainerStatuses": [status]} if status else {}
    return msgspec.convert(tree, Pod)


def test_an_ephemeral_container_is_started_whatever_the_others_do() -> None:
    assert decide(ephemeral(), {}, NOW, DELAYS).start == ["debug", "init"]


def test_an_ephemeral_container_is_started_once() -> None:
    over = {"debug": [ContainerAttempt(ContainerKey("u", "debug", 0), NOW - 2, 0, NOW - 1, 1)]}
    assert "debug" not in decide(ephemeral(), over, NOW, DELAYS).start
    known = {"name": "debug", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "containerID": "x://1"}
    assert "debug" not in decide(ephemeral(known), {}, NOW, DELAYS).start


def test_an_ephemeral_container_that_runs_ends_with_its_pod() -> None:
    histories = {
        "main": [ContainerAttempt(ContainerKey("u", "main", 0), NOW - 2, 0, NOW - 1, 0)],
        "debug": [ContainerAttempt(ContainerKey("u", "debug", 0), NOW - 2)],
    }
    tree: dict[str, Any] = msgspec.to_builtins(ephemeral())
    tree["spec"] |= {"restartPolicy": "Never", "initContainers": []}
    decision = decide(msgspec.convert(tree, Pod), histories, NOW, DELAYS)
    assert (decision.stop, decision.phase) == (["debug"], "")
