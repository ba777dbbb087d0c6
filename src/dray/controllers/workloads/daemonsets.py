"""DaemonSets: runs one pod on each matching node.

Reads informers' copies, creates and deletes pods, writes revisions and the status; `daemons` decides which pods and
where. The hash of the template distinguishes old pods from new ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.errors import ApiError
from dray.api.selectors import label_selector
from dray.api.types.apps import ControllerRevision, DaemonSet
from dray.api.types.core import Node, Pod
from dray.background.thread import in_thread_if_large
from dray.client import Deltas, key_of
from dray.controllers.context import ControllerContext
from dray.controllers.workloads import daemons
from dray.controllers.workloads.adoption import Adoption
from dray.controllers.workloads.daemons import DaemonPlan, DaemonView
from dray.controllers.workloads.history import REVISION_LABEL, RevisionHistory
from dray.controllers.workloads.loop import WorkloadLoop
from dray.controllers.workloads.podcontrol import PodControl, namespace_ends
from dray.controllers.workloads.pods import is_deleting, next_available
from dray.controllers.workloads.status import write_status

# An ended pod is replaced at once the first time, then after growing pauses. Kubernetes' figures.
_FIRST_PAUSE_SECONDS = 1.0
_LAST_PAUSE_SECONDS = 900.0


class _Pauses:
    """When an ended pod may be replaced, by DaemonSet and node."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], tuple[float, float]] = {}  # end of the pause, and its length

    def remaining(self, key: tuple[str, str], now: float) -> float:
        return max(0.0, self._until.get(key, (0.0, 0.0))[0] - now)

    def begin(self, key: tuple[str, str], now: float) -> None:
        """Begin a pause after a pod ended: twice the last pause, unless that was long ago."""
        self._until = {k: v for k, v in self._until.items() if now < v[0] + 2 * _LAST_PAUSE_SECONDS}
        _, last = self._until.get(key, (0.0, 0.0))
        pause = min(last * 2 or _FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS)
        self._until[key] = now + pause, pause


class DaemonSetController:
    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.clock
        self._pauses = _Pauses()
        self._loop = WorkloadLoop(context, DaemonSet, "daemonset", self._reconcile, account="daemon-set-controller")
        self.run = self._loop.run
        self._client = self._loop.client
        self._loop.follow(Pod)
        self._loop.follow(ControllerRevision)
        self._history = RevisionHistory(self._client, context.informers.informer(ControllerRevision), self._loop.writes)
        self._nodes = context.informers.informer(Node)
        self._nodes.add_handler(self._on_nodes)
        pods = context.informers.informer(Pod)
        self._adoption = Adoption(self._client, Pod, pods, self._loop.writes)
        self._control = PodControl(self._client, self._loop.recorder, self._loop.writes)

    def _on_nodes(self, deltas: Deltas[Node]) -> None:
        """Queue all DaemonSets if a node's labels or spec changed; other changes come every few seconds."""
        if any(old is None or new is None or _placement(old) != _placement(new) for old, new in deltas):
            for daemon_set in self._loop.owners.list():
                self._loop.queue.add(key_of(daemon_set))

    async def _reconcile(self, daemon_set: DaemonSet) -> float | None:
        selector = label_selector(daemon_set.spec.selector)
        if selector.everything:
            text = "This daemon set is selecting all pods. A non-empty selector is required."
            self._loop.recorder.warning(daemon_set, "SelectingAll", text)
            return None
        if is_deleting(daemon_set):
            return None
        pods = await self._adoption.claim(daemon_set, selector)
        nodes = self._nodes.list()
        size = len(nodes) + len(pods)
        seen = await in_thread_if_large(size, daemons.view, daemon_set, nodes, pods, self._clock.time())
        wanted = await self._history.record(daemon_set, seen.current)
        error, pause = await self._carry_out(seen, await in_thread_if_large(size, daemons.plan, seen))
        status = await in_thread_if_large(size, daemons.status_of, seen)
        await write_status(self._client, self._loop.writes, daemon_set, status)
        live = {f"{daemon_set.metadata.name}-{pod.metadata.labels.get(REVISION_LABEL, '')}" for pod in pods}
        await self._history.trim(daemon_set, wanted.older, live)
        if error is not None and not namespace_ends(error):
            raise error
        ready = next_available(pods, daemon_set.spec.minReadySeconds, seen.now)
        return min((wait for wait in (pause, ready) if wait is not None), default=None)

    async def _carry_out(self, seen: DaemonView, plan: DaemonPlan) -> tuple[ApiError | None, float | None]:
        """Create and delete pods. Returns the first error, and the seconds until an ended pod may be replaced.

        The first value is None if all requests succeeded, the second one if no ended pod has to wait.
        """
        going = {pod.metadata.uid for pod in plan.delete}
        ended = [pod for pod in plan.ended if pod.metadata.uid not in going]
        due, pause = self._due(seen.daemon_set, ended, seen.now)
        created = await self._control.create(
            seen.daemon_set, plan.create, lambda node: daemons.daemon_tree(seen.daemon_set, seen.current, node)
        )
        deleted = await self._control.delete(seen.daemon_set, [*plan.delete, *due])
        return created.error or deleted.error, pause

    def _due(self, daemon_set: DaemonSet, ended: Sequence[Pod], now: float) -> tuple[list[Pod], float | None]:
        """Return the ended pods that may be replaced now, and the seconds until the next one may, or None.

        Starts a new pause and records an event for each pod that it returns.
        """
        due: list[Pod] = []
        waits: list[float] = []
        for pod in ended:
            key = daemon_set.metadata.uid, daemons.node_of(pod)
            if wait := self._pauses.remaining(key, now):
                waits.append(wait)
                continue
            self._pauses.begin(key, now)
            due.append(pod)
            phase, name, node = pod.status.phase, pod.metadata.name, pod.spec.nodeName
            text = (
                f"Found {phase.lower()} daemon pod {pod.metadata.namespace}/{name} on node {node}, will try to kill it"
            )
            if phase == "Failed":
                self._loop.recorder.warning(daemon_set, "FailedDaemonPod", text)
            else:
                text = text.replace("kill", "delete")
                self._loop.recorder.record(daemon_set, "SucceededDaemonPod", text)
        return due, min(waits, default=None)


def _placement(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec
