"""Decides the next steps for a pod's containers. Pure: takes the pod and the states of its containers, returns a
decision.

Init containers run one after the other. Sidecars (init containers that are always restarted) keep running beside the
following containers. Then all main containers run. A container that ends is restarted as the pod's policy says, each
time after a longer delay. Left out: starting and stopping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dray.api.types.core import Container, ContainerRestartRule, Pod
from dray.node.containers import AnyContainer
from dray.node.runtime import ContainerAttempt

BACK_OFF = "CrashLoopBackOff"
ContainerNames = frozenset[str]
Histories = Mapping[str, Sequence[ContainerAttempt]]

# A container that ran this long counts as healthy: its next end is the first one again, as in Kubernetes.
STEADY_SECONDS = 600.0


@dataclass(frozen=True)
class RestartDelays:
    """Delays before a container is restarted: none at first, then `first` seconds, doubling up to `last`.

    Both are in seconds.
    """

    first: float = 10.0
    last: float = 300.0

    def before(self, quick_ends: int) -> float:
        if quick_ends <= 1:
            return 0.0
        return float(min(self.first * 2 ** min(quick_ends - 2, 32), self.last))


class ContainerWaits(NamedTuple):
    """Why a container does not run: the reason and message of its `waiting` state."""

    reason: str
    message: str = ""


@dataclass
class PodSteps:
    """The containers to start and to stop, and the time of the next check. `phase` is set once the pod is finished.

    `again` is None if nothing is due later.
    """

    start: list[str] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    waiting: dict[str, ContainerWaits] = field(default_factory=dict)
    again: float | None = None  # seconds from now
    initialized: bool = False
    phase: str = ""  # Succeeded or Failed

    def look_after(self, seconds: float) -> None:
        """Ask for another check in at most `seconds`."""
        self.again = seconds if self.again is None else min(self.again, seconds)


def is_sidecar(container: AnyContainer) -> bool:
    return container.restartPolicy == "Always"


def last(histories: Histories, name: str) -> ContainerAttempt | None:
    attempts = histories.get(name, ())
    return attempts[-1] if attempts else None


def quick_ends(attempt: ContainerAttempt | None) -> int:
    """Return how many attempts in a row, up to this one, ended after less than `STEADY_SECONDS`.

    An attempt that ran longer counts as the first again; without an attempt the number is 0.
    """
    if attempt is None:
        return 0
    if attempt.finished - attempt.started >= STEADY_SECONDS:
        return 1
    return attempt.quick_ends + 1


def decide(
    pod: Pod, histories: Histories, now: float, delays: RestartDelays, started: ContainerNames | None = None
) -> PodSteps:
    """Return the next steps of a pod that should run.

    `started` are the containers whose postStart hooks and startup probes are done; None means all. `now` is in
    seconds since 1970.
    """
    decision = PodSteps()
    _decide_ephemeral(pod, histories, decision)
    if _decide_init(pod, histories, now, delays, decision, started):
        decision.initialized = True
        _decide_main(pod, histories, now, delays, decision)
    return decision


def _decide_ephemeral(pod: Pod, histories: Histories, decision: PodSteps) -> None:
    """Start each ephemeral container once, whatever the other containers do."""
    known = {status.name for status in pod.status.ephemeralContainerStatuses if status.containerID}
    names = [container.name for container in pod.spec.ephemeralContainers]
    decision.start += [name for name in names if name not in known and not histories.get(name)]


def _decide_init(
    pod: Pod,
    histories: Histories,
    now: float,
    delays: RestartDelays,
    decision: PodSteps,
    started: ContainerNames | None,
) -> bool:
    """Add the steps of init containers. Returns whether all of them are done, so that main containers may run.

    `started` are the containers whose postStart hooks and startup probes are done; None means all. `now` is in
    seconds since 1970.
    """
    mains_begun = any(histories.get(container.name) for container in pod.spec.containers)
    for container in pod.spec.initContainers:
        attempt = last(histories, container.name)
        if is_sidecar(container):
            if attempt is None or not attempt.running:
                _restart(pod, container, attempt, now, delays, decision)
                if attempt is None:
                    return False  # the next containers wait until the sidecar has started
            elif started is not None and container.name not in started and not mains_begun:
                return False
        elif mains_begun or (attempt is not None and attempt.exit_code == 0):
            continue
        elif attempt is None or not attempt.running:
            if attempt is not None and not _runs_again(pod, container, attempt):
                _finish(pod, histories, decision, failed=True)
                return False
            _restart(pod, container, attempt, now, delays, decision)
            return False
        else:
            return False
    return True


def _decide_main(pod: Pod, histories: Histories, now: float, delays: RestartDelays, decision: PodSteps) -> None:
    attempts = {container.name: last(histories, container.name) for container in pod.spec.containers}
    if all(
        a is not None and not _runs_again(pod, c, a)
        for c, a in zip(pod.spec.containers, attempts.values(), strict=True)
    ):
        failed = any(attempt is not None and attempt.exit_code != 0 for attempt in attempts.values())
        _finish(pod, histories, decision, failed=failed)
        return
    for container in pod.spec.containers:
        attempt = attempts[container.name]
        if attempt is None or (not attempt.running and _runs_again(pod, container, attempt)):
            _restart(pod, container, attempt, now, delays, decision)


def _runs_again(pod: Pod, container: Container, attempt: ContainerAttempt) -> bool:
    """Whether a container still runs, or will be restarted after this end.

    The rules of the container come first, then its restart policy or that of the pod.
    """
    if attempt.exit_code is None or any(_applies(rule, attempt.exit_code) for rule in container.restartPolicyRules):
        return True
    policy = container.restartPolicy or pod.spec.restartPolicy
    return policy in ("", "Always") or (policy == "OnFailure" and attempt.exit_code != 0)


def _applies(rule: ContainerRestartRule, exit_code: int) -> bool:
    """Whether a restart rule asks for a restart after this exit code.

    Operator In asks for one of the codes, NotIn for any other. Rules with another action never apply.
    """
    codes = rule.exitCodes
    return rule.action == "Restart" and codes is not None and (exit_code in codes.values) == (codes.operator == "In")


def _restart(
    pod: Pod,
    container: Container,
    attempt: ContainerAttempt | None,
    now: float,
    delays: RestartDelays,
    decision: PodSteps,
) -> None:
    """Start a container now, or note when its restart delay ends.

    `attempt` is the latest attempt, or None if there was none: then the container starts now. `now` is in seconds
    since 1970.
    """
    ends = quick_ends(attempt)
    delay = delays.before(ends)
    left = 0.0 if attempt is None else attempt.finished + delay - now
    if left <= 0:
        decision.start.append(container.name)
        return
    meta = pod.metadata
    decision.waiting[container.name] = ContainerWaits(
        BACK_OFF,
        f"back-off {duration(delay)} restarting failed container={container.name} "
        f"pod={meta.name}_{meta.namespace}({meta.uid})",
    )
    decision.look_after(left)


def duration(seconds: float) -> str:
    """Return a duration in Go's notation, known from Kubernetes: 10s, 1m20s, 5m0s.

    Only durations below a minute can have a fraction.
    """
    if seconds < 60:
        return f"{seconds:g}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s"


def _finish(pod: Pod, histories: Histories, decision: PodSteps, *, failed: bool) -> None:
    """Stop the remaining sidecars; once all have ended, set the pod's phase.

    `failed` says whether the phase will be Failed or Succeeded.
    """
    decision.start.clear()
    decision.waiting.clear()
    decision.again = None
    decision.stop = next_to_stop(pod, histories)
    if not decision.stop:
        decision.phase = "Failed" if failed else "Succeeded"


def next_to_stop(pod: Pod, histories: Histories) -> list[str]:
    """Return the containers to stop next when a pod ends: all but sidecars, then the last running sidecar.

    Returns nothing once no container runs.
    """
    running = [name for name in histories if (attempt := last(histories, name)) is not None and attempt.running]
    sidecars = [container.name for container in pod.spec.initContainers if is_sidecar(container)]
    others = [name for name in running if name not in sidecars]
    if others:
        return others
    return [name for name in reversed(sidecars) if name in running][:1]
