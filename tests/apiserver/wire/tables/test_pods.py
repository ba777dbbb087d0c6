"""The status word of a pod, its ready count and restarts."""

import msgspec
import pytest

from dray.api.resources import BY_TYPE
from dray.api.types import core
from dray.apiserver.wire.tables import printer
from dray.apiserver.wire.tables import row as printed
from tests import objects
from tests.apiserver.wire.tables.printing import cells

NOW = 1_800_000_000.0
CREATED = "2027-01-15T08:00:00Z"  # the same instant


def shown_pod(status, spec=None, **metadata):
    tree = objects.pod(metadata={"creationTimestamp": CREATED, **metadata}, status=status, **(spec or {}))
    return msgspec.convert(tree, core.Pod)


def container(name="c", **status):
    return {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 0, **status}


def ready(type_="Ready"):
    return [{"type": type_, "status": "True"}]


RUNNING = container(ready=True, state={"running": {}})
DONE = container(state={"terminated": {"exitCode": 0, "reason": "Completed"}})
INIT = {"initContainers": [{"name": "i"}, {"name": "j"}]}
SIDECAR = {"initContainers": [{"name": "side", "restartPolicy": "Always"}]}


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (shown_pod({"phase": "Pending"}), ["0/1", "Pending", "0"]),
        (shown_pod({"phase": "Running", "containerStatuses": [RUNNING]}), ["1/1", "Running", "0"]),
        (shown_pod({"phase": "Failed", "reason": "Evicted"}), ["0/1", "Evicted", "0"]),
        (shown_pod({"phase": "Succeeded", "containerStatuses": [DONE]}), ["0/1", "Completed", "0"]),
        (
            shown_pod({"phase": "Running", "containerStatuses": [container(state={"waiting": {"reason": "CrashLoopBackOff"}}, restartCount=4)]}),
            ["0/1", "CrashLoopBackOff", "4"],
        ),
        (
            shown_pod({"phase": "Failed", "containerStatuses": [container(state={"terminated": {"exitCode": 137, "signal": 9}})]}),
            ["0/1", "Signal:9", "0"],
        ),
        (
            shown_pod({"phase": "Failed", "containerStatuses": [container(state={"terminated": {"exitCode": 3}})]}),
            ["0/1", "ExitCode:3", "0"],
        ),
        (shown_pod({"phase": "Running"}, deletionTimestamp=CREATED), ["0/1", "Terminating", "0"]),
        (shown_pod({"phase": "Succeeded"}, deletionTimestamp=CREATED), ["0/1", "Succeeded", "0"]),
        (shown_pod({"phase": "Running", "reason": "NodeLost"}, deletionTimestamp=CREATED), ["0/1", "Unknown", "0"]),
        (
            shown_pod({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            ["0/1", "SchedulingGated", "0"],
        ),
        (
            shown_pod({"phase": "Pending", "initContainerStatuses": [container("i", state={"running": {}})]}, INIT),
            ["0/1", "Init:0/2", "0"],
        ),
        (
            shown_pod({"phase": "Pending", "initContainerStatuses": [container("i", **{k: DONE[k] for k in ("state",)}), container("j", state={"waiting": {"reason": "PodInitializing"}})]}, INIT),
            ["0/1", "Init:1/2", "0"],
        ),
        (
            shown_pod({"phase": "Pending", "initContainerStatuses": [container("i", state={"waiting": {"reason": "ImagePullBackOff"}})]}, INIT),
            ["0/1", "Init:ImagePullBackOff", "0"],
        ),
        (
            shown_pod({"phase": "Pending", "initContainerStatuses": [container("i", state={"terminated": {"exitCode": 2}})]}, INIT),
            ["0/1", "Init:ExitCode:2", "0"],
        ),
        (
            shown_pod({"phase": "Running", "initContainerStatuses": [container("side", started=True, ready=True, restartCount=2, state={"running": {}})], "containerStatuses": [RUNNING]}, SIDECAR),
            ["2/2", "Running", "2"],
        ),
        (
            shown_pod({"phase": "Running", "conditions": ready(), "containerStatuses": [DONE, container("d", ready=True, state={"running": {}})]}, {"containers": [{"name": "c"}, {"name": "d"}]}),
            ["1/2", "Running", "0"],
        ),
        (
            shown_pod({"phase": "Running", "containerStatuses": [DONE, container("d", ready=True, state={"running": {}})]}, {"containers": [{"name": "c"}, {"name": "d"}]}),
            ["1/2", "NotReady", "0"],
        ),
    ],
)  # fmt: skip
def test_ready_status_and_restarts(obj, want):
    assert cells(obj, NOW)[1:4] == want


def test_restarts_tell_when_the_last_one_was():
    ended = {"terminated": {"exitCode": 1, "finishedAt": CREATED}}
    obj = shown_pod({"phase": "Running", "containerStatuses": [RUNNING | {"restartCount": 3, "lastState": ended}]})
    assert cells(obj, NOW + 300)[3] == "3 (5m ago)"


def test_wide_columns():
    status = {"phase": "Running", "podIPs": [{"ip": "10.1.2.3"}], "nominatedNodeName": "m", "conditions": ready("x/y")}
    obj = shown_pod(status, {"nodeName": "n", "readinessGates": [{"conditionType": "x/y"}, {"conditionType": "z"}]})
    assert cells(obj, NOW)[5:] == ["10.1.2.3", "n", "m", "1/2"]
    assert cells(shown_pod({}), NOW)[5:] == ["<none>"] * 4


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_rows_of_finished_pods_are_marked(phase):
    row = printed(printer(BY_TYPE[core.Pod]), shown_pod({"phase": phase}), NOW)
    assert row["conditions"][0] | {"message": ""} == {
        "type": "Completed",
        "status": "True",
        "reason": phase,
        "message": "",
    }
    row = printed(printer(BY_TYPE[core.Pod]), shown_pod({"phase": "Running"}), NOW)
    assert "conditions" not in row
