"""Builds the pod status that a node reports. Pure.

Times come from the runtime, so the same containers give the same status before and after a restart of the agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dray.api.times import timestamp
from dray.api.types.core import EphemeralContainer, Pod, PodCondition
from dray.api.wire import Tree
from dray.node.containers import AnyContainer
from dray.node.lifecycle import ContainerWaits, Histories, is_sidecar, last
from dray.node.runtime import ContainerAttempt

# False: the runtime cannot apply all edits that a container's devices need
EDITS_APPLIED = "dray.dev/DeviceEditsApplied"
CREATING = ContainerWaits("ContainerCreating")
INITIALIZING = ContainerWaits("PodInitializing")


@dataclass(frozen=True)
class PodReport:
    """All information from which a pod's status is built."""

    phase: str
    histories: Histories
    waiting: Mapping[str, ContainerWaits] = field(default_factory=dict)
    initialized: bool = False
    reason: str = ""
    message: str = ""
    disrupted: str = ""  # why the node ends the pod early
    not_applied: Sequence[str] = ()
    image_ids: Mapping[str, str] = field(default_factory=dict)
    ready: frozenset[str] | None = None  # running containers that are ready; None: all of them
    started: frozenset[str] | None = None  # running containers whose hooks and startup probes are done; None: all
    resources: Mapping[str, list[Tree]] = field(default_factory=dict)  # allocatedResourcesStatus by container
    restarts: Mapping[str, int] = field(default_factory=dict)  # restart counts known from before this agent started
    host_address: str = ""
    pod_address: str = ""
    runtime: str = ""


def status_tree(pod: Pod, report: PodReport, now: float) -> Tree:
    """Return the pod's status as a tree to write to the API.

    Without a pod address, podIP and podIPs are left out. `now` is in seconds since 1970.
    """
    tree: Tree = {
        "phase": report.phase,
        "startTime": pod.status.startTime or timestamp(now),
        "hostIP": report.host_address,
        "hostIPs": [{"ip": report.host_address}],
        "podIP": report.pod_address,
        "podIPs": [{"ip": report.pod_address}],
        "conditions": _conditions(pod, report, now),
        "initContainerStatuses": [_container(c, report, init=True) for c in pod.spec.initContainers],
        "containerStatuses": [_container(c, report, init=False) for c in pod.spec.containers],
        "ephemeralContainerStatuses": [_ephemeral(c, report) for c in pod.spec.ephemeralContainers],
    }
    for name, value in (("reason", report.reason), ("message", report.message)):
        if value:
            tree[name] = value
    return tree if report.pod_address else {k: v for k, v in tree.items() if k not in ("podIP", "podIPs")}


def _container(container: AnyContainer, report: PodReport, *, init: bool) -> Tree:
    attempts = report.histories.get(container.name, ())
    attempt = attempts[-1] if attempts else None
    waiting = report.waiting.get(container.name)
    up = attempt is not None and attempt.running
    done = attempt is not None and attempt.exit_code == 0 and init and not is_sidecar(container)
    tree: Tree = {
        "name": container.name,
        "image": container.image,
        "imageID": report.image_ids.get(container.name, ""),
        "ready": done or (up and _among(container.name, report.ready)),
        "started": up and _among(container.name, report.started),
        "restartCount": attempt.key.attempt if attempt is not None else report.restarts.get(container.name, 0),
        "state": _state(attempt, waiting, report),
    }
    if attempt is not None:
        tree["containerID"] = _id(attempt, report.runtime)
    previous = attempt if attempt is not None and waiting is not None else attempts[-2] if len(attempts) > 1 else None
    if previous is not None and not previous.running:
        tree["lastState"] = {"terminated": _terminated(previous, report.runtime)}
    if container.name in report.resources:
        tree["allocatedResourcesStatus"] = report.resources[container.name]
    return tree


def _ephemeral(container: EphemeralContainer, report: PodReport) -> Tree:
    """Return the status of an ephemeral container, which is never ready or started."""
    tree = _container(container, report, init=False)
    return {name: value for name, value in tree.items() if name != "started"} | {"ready": False}


def _among(name: str, names: frozenset[str] | None) -> bool:
    return names is None or name in names


def _state(attempt: ContainerAttempt | None, waiting: ContainerWaits | None, report: PodReport) -> Tree:
    if waiting is not None or attempt is None:
        waiting = waiting or (CREATING if report.initialized or not report.histories else INITIALIZING)
        state = {"reason": waiting.reason}
        return {"waiting": state | {"message": waiting.message} if waiting.message else state}
    if attempt.running:
        return {"running": {"startedAt": timestamp(attempt.started)}}
    return {"terminated": _terminated(attempt, report.runtime)}


def _terminated(attempt: ContainerAttempt, runtime: str) -> Tree:
    tree: Tree = {
        "exitCode": attempt.exit_code,
        "reason": attempt.reason,
        "startedAt": timestamp(attempt.started),
        "finishedAt": timestamp(attempt.finished),
        "containerID": _id(attempt, runtime),
    }
    return tree | {"message": attempt.message} if attempt.message else tree


def _id(attempt: ContainerAttempt, runtime: str) -> str:
    return f"{runtime}://{attempt.key.pod}/{attempt.key.container}/{attempt.key.attempt}"


def _conditions(pod: Pod, report: PodReport, now: float) -> list[Tree]:
    names = [c.name for c in pod.spec.containers]
    sidecars = [c.name for c in pod.spec.initContainers if is_sidecar(c)]
    down = [n for n in (*sidecars, *names) if not _is_ready(n, report)]
    over = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(report.phase, "")
    begun = any(report.histories.get(n) for n in (*names, *(c.name for c in pod.spec.initContainers)))
    initialized = report.initialized or over == "PodCompleted"
    unready = (over or "ContainersNotReady", "" if over else f"containers with unready status: [{' '.join(down)}]")
    open_gates = _open_gates(pod)
    gated = ("ReadinessGatesNotReady", ", ".join(open_gates)) if open_gates else ("", "")
    met = not down and not over
    wanted = [
        ("PodReadyToStartContainers", begun and not over, "", ""),
        ("Initialized", initialized, *(("", "") if initialized else ("ContainersNotInitialized", ""))),
        ("Ready", met and not open_gates, *(gated if met else unready)),
        ("ContainersReady", met, *(("", "") if met else unready)),
    ]
    if report.not_applied:
        text = "; ".join(report.not_applied)
        wanted.append((EDITS_APPLIED, False, "RuntimeCannotApply", text))
    if report.disrupted:
        wanted.append(("DisruptionTarget", True, "TerminationByKubelet", report.disrupted))
    before = {condition.type: condition for condition in pod.status.conditions}
    return [_condition(before.get(type_), type_, met, reason, message, now) for type_, met, reason, message in wanted]


def _is_ready(name: str, report: PodReport) -> bool:
    attempt = last(report.histories, name)
    return attempt is not None and attempt.running and _among(name, report.ready)


def _open_gates(pod: Pod) -> list[str]:
    """Return a text for each readiness gate of the pod whose condition is not True.

    Returns nothing if all are open.
    """
    conditions = {condition.type: condition.status for condition in pod.status.conditions}
    gates = [(gate.conditionType, conditions.get(gate.conditionType)) for gate in pod.spec.readinessGates]
    corresponding = "corresponding condition of pod readiness gate"
    return [
        f'{corresponding} "{name}" {"does not exist" if status is None else "does not have status True"}.'
        for name, status in gates
        if status != "True"
    ]


def _condition(before: PodCondition | None, type_: str, met: bool, reason: str, message: str, now: float) -> Tree:
    status = "True" if met else "False"
    since = before.lastTransitionTime if before is not None and before.status == status else None
    tree: Tree = {"type": type_, "status": status, "lastTransitionTime": since or timestamp(now)}
    return tree | {"reason": reason, "message": message}
