"""Pod status as reported by a simulated node: running, then finished when the pod's time is up. No I/O.

Annotations of a pod give its run time and exit code (`dray.node.played`). A pod of a Job without annotations runs for
a default time set on the command line.
"""

from __future__ import annotations

from typing import Any

from dray.api.types.core import Container, Pod


def running(pod: Pod, now: str, node_address: str, pod_address: str, restarts: int = 0) -> dict[str, Any]:
    """Return the status of a pod whose containers all run.

    `now` is the timestamp; an earlier start time is kept. Init containers are finished.
    """
    return {
        "phase": "Running",
        "startTime": pod.status.startTime or now,
        "hostIP": node_address,
        "hostIPs": [{"ip": node_address}],
        "podIP": pod_address,
        "podIPs": [{"ip": pod_address}],
        "conditions": _conditions(now, ready=True),
        "initContainerStatuses": [_finished(c, now, 0) for c in pod.spec.initContainers],
        "containerStatuses": [
            _container(c, {"running": {"startedAt": now}}, restarts, up=True) for c in pod.spec.containers
        ],
    }


def finished(pod: Pod, now: str, code: int) -> dict[str, Any]:
    """Return the status of a pod that ended with this exit code.

    The phase is Failed unless the code is 0. `now` is a timestamp.
    """
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": _conditions(now, ready=False, reason="PodFailed" if code else "PodCompleted"),
        "containerStatuses": [_finished(c, now, code) for c in pod.spec.containers],
    }


def refused(reason: str, message: str) -> dict[str, Any]:
    """Return the status of a pod that the node rejects."""
    return {"phase": "Failed", "reason": reason, "message": message}


def restarts_after(pod: Pod, code: int) -> bool:
    """Whether the pod's restart policy restarts its containers after this exit code."""
    policy = pod.spec.restartPolicy
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def belongs_to_job(pod: Pod) -> bool:
    """Whether a Job controls the pod."""
    return any(owner.controller and owner.kind == "Job" for owner in pod.metadata.ownerReferences)


def _conditions(now: str, *, ready: bool, reason: str = "") -> list[dict[str, Any]]:
    state = "True" if ready else "False"
    listed: list[dict[str, Any]] = [{"type": "Initialized", "status": "True", "lastTransitionTime": now}]
    for type_ in ("Ready", "ContainersReady"):
        entry = {"type": type_, "status": state, "lastTransitionTime": now}
        listed.append({**entry, "reason": reason} if reason else entry)
    return listed


def _container(container: Container, state: dict[str, Any], restarts: int, *, up: bool) -> dict[str, Any]:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": up,
        "started": up,
        "restartCount": restarts,
        "state": state,
    }


def _finished(container: Container, now: str, code: int) -> dict[str, Any]:
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": now, "finishedAt": now}
    return _container(container, {"terminated": ended}, 0, up=False)
