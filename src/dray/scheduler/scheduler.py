"""The scheduler: keeps its picture of the cluster, takes pods from the queue one by one, and binds what it decided.

Informer handlers keep the picture; each tells the queue which waiting pods an event may help. The loop decides without
awaiting and hands decisions to binding tasks, which run while the next pods are decided. Left out: rules (`filters`,
`neighbours`, `devices`, `scores`), writing (`binding`), who is leader (`dray.client.leader`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any

from dray.allocator import Features, Fits, Index
from dray.api import podclaims
from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.gates import FeatureGates
from dray.api.taints import selects, with_rules
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.client import Client, Deltas, PatchKind, SharedInformers
from dray.client.clock import timestamp
from dray.client.consumers import Consumers
from dray.client.events import EventRecorder
from dray.scheduler.attempt import Placement, Refused
from dray.scheduler.binding import Binder, Overtaken
from dray.scheduler.configuration import Configuration, Profile
from dray.scheduler.demand import Candidate
from dray.scheduler.devices import NAME, Devices, PodClaims, Promise, Refusal, Thinking, Wrong
from dray.scheduler.metrics import Figures
from dray.scheduler.neighbours import Neighbours
from dray.scheduler.nodes import NodeTable
from dray.scheduler.queue import Place, SchedulingQueue, Waiting

log = logging.getLogger(__name__)

WHY = 5  # the logging level of reasons, below DEBUG: `-v5`
BINDINGS_IN_FLIGHT = 100
PATIENCE = 1.0  # seconds before a pod is told that a claim is missing: most are made from templates right after the pod
LOOKS_APART = 0.02  # seconds between two looks at which waiting pods other devices help: they may change all the time
PAUSE_FOR_THOUGHT = 9  # times as long as an attempt that took too long must its pod wait: others want nine tenths
REMIND_AFTER = 60.0  # seconds before the same event is written again: a full cluster tries its pods very often
SCHEDULER_ERROR = "SchedulerError"  # the condition's reason where waiting alone will not help
PASSING = (Overtaken, Conflict, NotFound)  # failures of a binding that only mean that somebody else was faster
NEIGHBOUR_RULES = frozenset({"InterPodAffinity", "PodTopologySpread"})
ROOM_RULES = NEIGHBOUR_RULES | {"NodePorts", "NodeResourcesFit"}  # those for which a pod that leaves makes room


class Scheduler:
    """Places the pods of its profiles."""

    def __init__(
        self,
        client: Client,
        gates: FeatureGates,
        configuration: Configuration | None = None,
        *,
        informers: SharedInformers | None = None,
    ) -> None:
        self._client = client
        self._gates = gates
        self._profiles = (configuration or Configuration()).profiles
        self._own_informers = informers is None
        self._informers = informers or SharedInformers(client)
        self._recorder = EventRecorder(client, "default-scheduler")
        self._wake = asyncio.Event()
        self._bindings: set[asyncio.Task[None]] = set()
        self._telling: dict[str, asyncio.Task[None]] = {}  # pod uid → its condition on the way to the server
        self._told: dict[str, tuple[str, float]] = {}  # pod uid → what it was told last, and when
        self._looked = 0.0  # when waiting pods were last compared with what nodes can give
        self._look: asyncio.TimerHandle | None = None  # the next such look
        self._last: Candidate | None = None  # the pod that was tried last: the next is often like it
        self.queue = SchedulingQueue(time.monotonic, self._wake.set)
        self._figures = Figures(self.queue)
        self.table = NodeTable()
        self._pods = self._informers.informer(Pod)
        self._namespaces = self._informers.informer(Namespace)
        self._neighbours = Neighbours(self.table, self._namespace_labels)
        self._connect_devices()
        self._placement = Placement(self.table, self._neighbours, self.devices)
        self._pods.add_handler(self._on_pods)
        self._informers.informer(Node).add_handler(self._on_nodes)

    def _connect_devices(self) -> None:
        gates, informers = self._gates, self._informers
        features = Features(
            admin_access=gates.enabled("DRAAdminAccess"),
            prioritized_list=gates.enabled("DRAPrioritizedList"),
            device_taints=gates.enabled("DRADeviceTaints"),
        )
        index = Index(features)
        claims = informers.informer(ResourceClaim)
        sharing = podclaims.Sharing.of(gates)
        self._consumers = Consumers(informers, groups=sharing.groups)
        self._binder = Binder(self._client, sharing)
        self.devices = Devices(index, claims, self._consumers.group_of, self.table, gates, time.monotonic)
        self._slices = informers.informer(ResourceSlice)
        self._rules: dict[str, DeviceTaintRule] = {}
        if gates.enabled("DynamicResourceAllocation"):
            claims.add_handler(self._on_claims)
            informers.informer(DeviceClass).add_handler(self._on_classes)
            self._slices.add_handler(self._on_slices)
        if sharing.groups:
            informers.informer(PodGroup).add_handler(self._on_groups)
        if features.device_taints:
            informers.informer(DeviceTaintRule).add_handler(self._on_rules)

    # -- running

    async def run(self) -> None:
        """Schedule until cancelled; bindings under way are broken off and give back what they can."""
        try:
            await self._informers.start()
            await self._informers.synced()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._recorder.run(), name="scheduler events")
                group.create_task(self._loop(), name="scheduler loop")
        finally:
            if self._look is not None:
                self._look.cancel()
            under_way = [*self._bindings]
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            if self._own_informers:
                await self._informers.stop()

    async def _loop(self) -> None:
        while True:
            turn = await self._client.give_way()  # informers, bindings and who else talks to the server get theirs
            turn_ends = time.perf_counter() + turn
            while time.perf_counter() < turn_ends:
                waiting = self.queue.pop()
                if waiting is None:
                    await self._sleep()
                    break
                self._attempt(waiting)
                while len(self._bindings) >= BINDINGS_IN_FLIGHT:
                    await asyncio.wait(self._bindings, return_when=asyncio.FIRST_COMPLETED)

    async def _sleep(self) -> None:
        self._wake.clear()
        due = self.queue.next_wake()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self.queue.now())):
                await self._wake.wait()
        except TimeoutError:
            return

    # -- one attempt

    def _attempt(self, waiting: Waiting) -> None:
        pod = waiting.pod
        profile = self._profiles[pod.spec.schedulerName]
        started = time.perf_counter()
        result = "error"
        try:
            candidate = self._last = Candidate(pod, self._last)
            promise = self._decide(waiting, candidate, profile)
        except Thinking:
            waiting.thought += time.perf_counter() - started
            self.queue.postpone(waiting)
            return
        except Refused as refused:
            result = "unschedulable"
            self._refuse(waiting, refused, waiting.thought + time.perf_counter() - started)
        except Exception as error:  # one pod that cannot be judged must not keep the others waiting
            log.exception("attempt to place %s/%s failed", pod.metadata.namespace, pod.metadata.name)
            self.queue.retry(waiting, repr(error))
        else:
            result = "scheduled"
            self.table.place(pod, promise.node, candidate.demand)
            log.debug("pod %s/%s goes to node %s", pod.metadata.namespace, pod.metadata.name, promise.node)
            self._in_background(self._bind(waiting, promise))
        self.queue.judged(waiting)
        self._figures.attempted(result, profile.name, waiting.thought + time.perf_counter() - started)
        waiting.thought = 0.0

    def _refuse(self, waiting: Waiting, refused: Refused, seconds: float) -> None:
        """Let a pod wait that was refused after so many seconds: for an event, or for a while if it took too long."""
        pod = waiting.pod
        where = pod.metadata.namespace, pod.metadata.name
        log.debug("pod %s/%s waits, refused by %s", *where, ", ".join(sorted(refused.plugins)))
        log.log(WHY, "pod %s/%s: %s", *where, refused.message)
        if refused.timed_out:
            self.queue.retry(waiting, refused.message, pause=seconds * PAUSE_FOR_THOUGHT)
        else:
            self.queue.refuse(waiting, refused.plugins, refused.message)
        self._tell(pod, refused.reason, refused.message)
        if refused.blocking is not None:
            self._post_filter(refused.blocking)

    def _decide(self, waiting: Waiting, candidate: Candidate, profile: Profile) -> Promise:
        started = time.perf_counter()
        waiting.claims = None
        try:
            claims = waiting.claims = self.devices.prepare(waiting.pod)
            claims.thought = waiting.thought
        except Refusal as refusal:
            message = f"0/{len(self.table)} nodes are available: {refusal}."
            raise Refused(frozenset({NAME}), message) from None
        prepared = time.perf_counter()
        self._figures.passed("PreFilter", profile.name, prepared - started)
        try:
            return self._placement.decide(candidate, claims, profile)
        except Wrong as wrong:
            message = f"0/{len(self.table)} nodes are available: {wrong}."
            raise Refused(frozenset({NAME}), message, reason=SCHEDULER_ERROR) from None
        finally:
            self._figures.passed("Filter", profile.name, time.perf_counter() - prepared)

    def _post_filter(self, claims: PodClaims) -> None:
        """Deallocate one claim that is in the way and that nobody uses; preemption would come here too."""
        claim = self.devices.expendable(claims)
        if claim is not None:
            self._in_background(self._deallocate(claim))

    async def _deallocate(self, claim: ResourceClaim) -> None:
        try:
            await self._binder.deallocate(claim)
        except ApiError as error:
            log.info("could not deallocate %s: %s", claim.metadata.name, error)

    async def _bind(self, waiting: Waiting, promise: Promise) -> None:
        pod = promise.claims.pod
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        started = time.perf_counter()
        if (telling := self._telling.get(pod.metadata.uid)) is not None:
            await asyncio.wait([telling])  # else the pod could be told last that it waits
        try:
            settled = await self._binder.bind(promise)
        except Exception as error:  # whatever it is, the pod must not be lost
            unexpected = not isinstance(error, (ApiError, Overtaken))
            level = logging.ERROR if unexpected else logging.INFO
            log.log(level, "binding %s failed: %s", name, error, exc_info=unexpected)
            self._not_bound(waiting, promise, error)
            return
        if sum(map(self.devices.claim_written, settled)):
            self._other_devices_may_help()
        self._figures.passed("Bind", pod.spec.schedulerName, time.perf_counter() - started)
        self._figures.chose(promise.outcome.alternatives if promise.outcome else ())
        self._told.pop(pod.metadata.uid, None)
        self._recorder.record(pod, "Scheduled", f"Successfully assigned {name} to {promise.node}")

    def _not_bound(self, waiting: Waiting, promise: Promise, error: Exception) -> None:
        self._undo(promise)
        self.queue.retry(waiting, str(error))
        if self.queue.get(waiting.key) is not waiting:
            return  # gone meanwhile
        if not isinstance(error, PASSING):
            self._tell(waiting.pod, SCHEDULER_ERROR, f"binding to node {promise.node} failed: {error}")
        self._take_in(waiting.pod, waiting.pod)  # a claim that went meanwhile keeps it out until it is back

    def _undo(self, promise: Promise) -> None:
        uid = promise.claims.pod.metadata.uid
        current = self._pods.get(promise.claims.pod.metadata.namespace, promise.claims.pod.metadata.name)
        if current is None or current.metadata.uid != uid or not current.spec.nodeName:
            self.table.unplace(uid)
            self.queue.activate(self.queue.refused_by(ROOM_RULES))
        for claim in promise.claims.pending:
            self.devices.ledger.forget(claim.metadata.uid)
        if promise.claims.pending:
            self._devices_may_help()

    # -- telling the user

    def _tell(self, pod: Pod, reason: str, message: str) -> None:
        """Say in an event and in the pod's condition why it waits; nothing when it knows that already."""
        said, when = self._told.get(pod.metadata.uid, ("", 0.0))
        now = self.queue.now()
        if said == message and now - when < REMIND_AFTER:
            return
        self._told[pod.metadata.uid] = message, now
        self._recorder.warning(pod, "FailedScheduling", message)
        if said != message:
            uid = pod.metadata.uid
            earlier = self._telling.get(uid)
            task = self._telling[uid] = self._in_background(self._write_condition(pod, reason, message, earlier))
            task.add_done_callback(lambda done: self._telling.get(uid) is done and self._telling.pop(uid))

    def _tell_gated(self, uid: str) -> None:
        """A claim that should have come by now has not: say so."""
        waiting = self.queue.get(uid)
        if waiting is not None and waiting.place is Place.GATED and (waits := self.devices.gate(waiting.pod)):
            self._tell(waiting.pod, "Unschedulable", f"0/{len(self.table)} nodes are available: {waits}.")

    async def _write_condition(self, pod: Pod, reason: str, message: str, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        known = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        condition: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = timestamp(time.time())
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                Pod, pod.metadata.name, patch, pod.metadata.namespace, kind=PatchKind.STRATEGIC, subresource="status"
            )
        except ApiError as error:
            log.debug("could not write the condition of %s: %s", pod.metadata.name, error)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._bindings.add(task)
        task.add_done_callback(self._bindings.discard)
        return task

    # -- what happens in the cluster

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            pod = new or old
            assert pod is not None
            if new is None or podclaims.is_finished(new):
                self._gone(pod)
            elif new.spec.nodeName:
                self.table.place(new, new.spec.nodeName)
                self.queue.remove(new.metadata.uid)
                if old is None or not old.spec.nodeName or old.metadata.labels != new.metadata.labels:
                    self.queue.activate(self.queue.refused_by(NEIGHBOUR_RULES))
                elif _spec_changed(old, new):  # it may need less now
                    self.queue.activate(self.queue.refused_by(ROOM_RULES))
            elif new.spec.schedulerName in self._profiles:
                self._take_in(old, new)

    def _gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.queue.remove(uid)
        self._told.pop(uid, None)
        if self.table.node_of(uid):
            self.table.unplace(uid)
            self.queue.activate(self.queue.refused_by(ROOM_RULES))

    def _take_in(self, old: Pod | None, new: Pod) -> None:
        if new.metadata.deletionTimestamp is not None:
            self.queue.remove(new.metadata.uid)
            return
        gates = new.spec.schedulingGates
        gate = ", ".join(gate.name for gate in gates) if gates else self.devices.gate(new)
        self.queue.add(new, gate=gate)
        if gate and not gates and (old is None or old is new):
            asyncio.get_running_loop().call_later(PATIENCE, self._tell_gated, new.metadata.uid)
        if old is not None and (_spec_changed(old, new) or old.metadata.labels != new.metadata.labels):
            self.queue.activate_one(new.metadata.uid)

    def _on_nodes(self, deltas: Deltas[Node]) -> None:
        for old, new in deltas:
            if new is None:
                assert old is not None
                self.table.remove(old.metadata.name)
                self.devices.index.remove_node(old.metadata.name)
                self.queue.activate(self.queue.refused_by(NEIGHBOUR_RULES))  # its domain may be gone
            elif old is None or _node_matters(old, new):
                self.devices.index.upsert_node(new)
                self.table.upsert(new, self.devices.index.number(new.metadata.name))
                self.queue.activate(self.queue.refused_by())

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        freed = False
        for old, new in deltas:
            claim = new or old
            assert claim is not None
            freed |= self.devices.claim_changed(claim, gone=new is None)
            for pod in self._consumers.of(claim.metadata.namespace, claim.metadata.name):
                self._claim_may_help(pod)
        if freed:
            self._other_devices_may_help()

    def _on_groups(self, deltas: Deltas[PodGroup]) -> None:
        for old, new in deltas:
            group = new or old
            if group is not None and (old is None or new is None):
                for pod in self._consumers.members(group.metadata.namespace, group.metadata.name):
                    self._claim_may_help(pod)

    def _claim_may_help(self, pod: Pod) -> None:
        """A claim of this pod, or its group, came, went or changed."""
        waiting = self.queue.get(pod.metadata.uid)
        if waiting is not None and waiting.place is not Place.TRYING:  # else it is being bound, and the news is our own
            self._take_in(waiting.pod, waiting.pod)
            if NAME in waiting.refused_by:
                self.queue.activate_one(pod.metadata.uid)

    def _on_classes(self, deltas: Deltas[DeviceClass]) -> None:
        for old, new in deltas:
            if new is None:
                assert old is not None
                self.devices.index.remove_class(old.metadata.name)
            else:
                self.devices.index.upsert_class(new)
        self._devices_may_help()

    def _on_slices(self, deltas: Deltas[ResourceSlice]) -> None:
        for old, new in deltas:
            if new is None:
                assert old is not None
                self.devices.index.remove_slice(old.metadata.name)
            else:
                self.devices.index.upsert_slice(with_rules(new, self._rules.values()))
        self._other_devices_may_help()

    def _on_rules(self, deltas: Deltas[DeviceTaintRule]) -> None:
        """Taint the devices that a rule means anew, and those that it meant before."""
        changed: list[DeviceTaintRule] = []
        for old, new in deltas:
            if old is not None and new is not None and old.spec == new.spec:
                continue
            changed += [rule for rule in (old, new) if rule is not None]
            if new is not None:
                self._rules[new.metadata.name] = new
            elif old is not None:
                self._rules.pop(old.metadata.name, None)
        for piece in self._slices.list() if changed else ():
            if any(selects(rule, piece.spec.driver, piece.spec.pool.name) for rule in changed):
                self.devices.index.upsert_slice(with_rules(piece, self._rules.values()))
        if changed:
            self._other_devices_may_help()

    def _other_devices_may_help(self) -> None:
        """Devices changed or became free: see soon which waiting pods that helps, at once if it was not seen lately."""
        if self._look is None:
            loop = asyncio.get_running_loop()
            self._look = loop.call_at(max(loop.time(), self._looked + LOOKS_APART), self._look_for_helped)

    def _look_for_helped(self) -> None:
        """Wake pods to which nodes can give more than when they were refused, while they can; the others go on waiting.

        Of thousands that wait, many were refused by the same answer: they ask for the same, are asked about once, and
        woken one after the other.
        """
        self._look, self._looked = None, asyncio.get_running_loop().time()
        alike: dict[tuple[Fits, int], tuple[PodClaims, list[Waiting]]] = {}
        for waiting in self.queue.refused_by({NAME}):
            if (claims := waiting.claims) is not None and claims.fits is not None:
                alike.setdefault((claims.fits, claims.asked), (claims, []))[1].append(waiting)
        for claims, pods in alike.values():
            self.queue.activate_in_turn(pods, partial(self.devices.is_news, claims))

    def _devices_may_help(self) -> None:
        self.queue.activate(self.queue.refused_by({NAME}))

    def _namespace_labels(self, name: str) -> dict[str, str]:
        namespace = self._namespaces.get("", name)
        return namespace.metadata.labels if namespace is not None else {}


def _spec_changed(old: Pod, new: Pod) -> bool:
    return old.spec is not new.spec and old.spec != new.spec


def _node_matters(old: Node, new: Node) -> bool:
    """Whether a node changed in a way that a rule can see; heartbeats do not."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.status.allocatable != new.status.allocatable
        or old.status.capacity != new.status.capacity
    )
