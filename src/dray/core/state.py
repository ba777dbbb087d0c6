"""State of the cluster that scheduling rules read: nodes and their pods, devices and their holders.

Scheduler, simulation and explain all update this state through `ClusterState.change`, which returns the rules whose
verdicts the change may affect (`Effect`). Left out: waiting pods (`core`) and the objects themselves (`objects`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from dray.allocator import Features, Index
from dray.api.allocations import taken_by_claim
from dray.api.availability import ClusterPools
from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing, has_claims, is_finished
from dray.api.reasons.nodes import SchedulingRule
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.core.attempt import Placement
from dray.core.devices import Devices
from dray.core.gangs import Gangs
from dray.core.journal import StateJournal
from dray.core.nominations import Nomination, Nominations
from dray.core.objects import ObjectLookup
from dray.core.trial import NamespacedName, StateTrial
from dray.verdicts.neighbours import Neighbours
from dray.verdicts.nodes import NodeTable

DEVICE_RULES = frozenset({SchedulingRule.DYNAMIC_RESOURCES})
NEIGHBOUR_RULES = frozenset({SchedulingRule.INTER_POD_AFFINITY, SchedulingRule.POD_TOPOLOGY_SPREAD})
ROOM_RULES = NEIGHBOUR_RULES | {SchedulingRule.NODE_PORTS, SchedulingRule.NODE_RESOURCES_FIT}


class Effect(NamedTuple):
    """Consequences of a change for refused pods: the rules that may now accept a pod, and whether devices changed."""

    rules: frozenset[SchedulingRule] = frozenset()
    devices: bool = False  # the allocator's index tells which pods this helps
    nominated: tuple[str, ...] = ()  # uids of nominated pods whose place may be free now


NOTHING = Effect()
ANYTHING = Effect(frozenset(SchedulingRule))
ROOM = Effect(ROOM_RULES)  # a pod left its node, or needs fewer resources there
ROOM_AND_DEVICES = Effect(ROOM_RULES, devices=True)  # a nomination ended
NEIGHBOURS = Effect(NEIGHBOUR_RULES)
DEVICES = Effect(devices=True)
CLASSES = Effect(DEVICE_RULES)
EXTENDED_CLASSES = Effect(DEVICE_RULES | {SchedulingRule.NODE_RESOURCES_FIT})


class ClusterState:
    """Nodes with their pods, and devices with their holders."""

    index_type = Index

    def __init__(
        self,
        objects: ObjectLookup,
        gates: FeatureGates,
        clock: Callable[[], float],
        *,
        defers: bool = False,
        binding_timeouts: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.objects = objects
        self.table = NodeTable()
        self.index = self.index_type(Features.from_gates(gates.enabled), defers=defers)
        self.devices = Devices(
            self.index,
            objects.claim,
            objects.group_of if Sharing.of(gates).groups else lambda pod: None,
            self.table,
            gates,
            clock,
            binding_timeouts,
            objects.extended_resource_claim,
            objects.is_in_use,
        )
        self.placement = Placement(self.table, Neighbours(self.table, objects.namespace_labels), self.devices)
        self.gangs = Gangs(objects, gates)
        self.nominations = Nominations(self.table, self.devices.ledger, clock)
        self.journal = StateJournal(self.table, self.devices.ledger, self.gangs, self.nominations)
        self.ending: dict[NamespacedName, None] = {}  # allocated claims of pods that have ended
        self._changed = 0  # number of changes that may affect a verdict
        self.pools = ClusterPools()
        self._changes: dict[type[Any], Callable[[Any, Any], Effect]] = {
            Pod: self._change_pod,
            Node: self._change_node,
            ResourceClaim: self._change_claim,
            ResourceSlice: self._change_slice,
            DeviceClass: self._change_class,
            DeviceTaintRule: self._change_taint_rule,
        }

    @contextmanager
    def trial(self) -> Iterator[StateTrial]:
        """Context manager: try placements, evictions and other claims, all undone when the block ends.

        If `StateTrial.keep` was called, the trial's placements remain as promises.
        """
        start, kept = self.placement.start, []
        trial = StateTrial(self.objects, self.table, self.devices, self.journal)
        try:
            with self.journal.open():
                yield trial
                kept = trial.kept()
        finally:
            if not kept:
                self.placement.start = start
        for pod, promise, demand in kept:
            self.nominations.clear(pod.metadata.uid)
            self.table.place(pod, promise.node, demand)
            self.devices.promise_again(promise)

    @property
    def stamp(self) -> Hashable:
        """Value that differs after every change that may affect a decision, including changes of undone trials."""
        table = self.table
        return table.object_changes.end, table.usage_changes.end, self.devices.ledger.changes, self._changed

    def change(self, old: Any, new: Any) -> Effect:
        """Update the state for an object that was created (`old` is None), changed, or deleted (`new` is None).

        Both objects have the same type, namespace and name. Returns the effect on refused pods, NOTHING also for
        types that do not matter.
        """
        change = self._changes.get(type(new if new is not None else old))
        if change is None:
            return NOTHING
        effect = change(old, new)
        if effect is not NOTHING:
            self._changed += 1
        return effect

    def _change_pod(self, old: Pod | None, new: Pod | None) -> Effect:
        """Update nodes and nominations for a created, changed or deleted pod. Returns the effect on refused pods."""
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._unplace(old)  # a new pod with the same name
        if new is None or is_finished(new):
            return self._end(new or old)
        if new.spec.nodeName:
            is_cleared = self.nominations.clear(new.metadata.uid)
            self.table.place(new, new.spec.nodeName)
            if is_cleared:
                return ROOM_AND_DEVICES
            if old is None or not old.spec.nodeName or old.metadata.labels != new.metadata.labels:
                return NEIGHBOURS
            return ROOM if spec_changed(old, new) else NOTHING  # the pod may need fewer resources now
        if old is not None and old.spec.nodeName:  # a fork that placed the pod is undone
            return self._unplace(old)
        return ROOM_AND_DEVICES if self.nominations.told(old, new) else NOTHING

    def _end(self, pod: Pod | None) -> Effect:
        """Remove a pod that was deleted or has finished. Returns the effect on refused pods, NOTHING if it is None."""
        if pod is None:
            return NOTHING
        is_cleared = self.nominations.clear(pod.metadata.uid)
        node = self.table.node_of(pod.metadata.uid)
        effect = ROOM_AND_DEVICES if is_cleared else self._unplace(pod)
        if pod.spec.nodeName and has_claims(pod):
            self._claims_end(pod)
        waiting = [*self.nominations.gone(pod.metadata.uid), *(self.nominations.on(node) if node else ())]
        return effect._replace(nominated=_uids(waiting)) if waiting else effect

    def _claims_end(self, pod: Pod) -> None:
        """Add the allocated claims of an ended pod to `ending`, since they may soon be deallocated."""
        for use in self.objects.uses(pod):
            key = pod.metadata.namespace, use.claim or ""
            claim = self.objects.claim(*key)
            if claim is not None and claim.status.allocation is not None:
                self.ending[key] = None

    def expire_nominations(self) -> list[Nomination]:
        """End and return the nominations whose deadline has passed.

        Drops claims that hold their devices from `ending`.
        """
        late = self.nominations.expire()
        devices = {device for one in late for device in one.taken.touched}
        for key in [*self.ending] if devices else ():
            claim = self.objects.claim(*key)
            if claim is not None and not devices.isdisjoint(taken_by_claim(claim).touched):
                del self.ending[key]
        return late

    def _unplace(self, pod: Pod | None) -> Effect:
        """Remove a pod from its node. Returns the effect on refused pods, NOTHING if the pod had no node."""
        if pod is None or not self.table.node_of(pod.metadata.uid):
            return NOTHING
        self.table.unplace(pod.metadata.uid)
        return ROOM

    def _change_node(self, old: Node | None, new: Node | None) -> Effect:
        """Update the tables for a created, changed or deleted node. Returns the effect on refused pods."""
        if new is None:
            assert old is not None
            self.table.remove(old.metadata.name)
            self.index.remove_node(old.metadata.name)
            return NEIGHBOURS  # the node's topology domain may no longer exist
        if old is not None and not _node_matters(old, new):
            return NOTHING
        self.index.upsert_node(new)
        self.table.upsert(new, self.index.number(new.metadata.name))
        return ANYTHING

    def _change_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> Effect:
        """Update the held devices for a created, changed or deleted claim. Returns the effect on refused pods."""
        is_freed = False
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            is_freed = self.devices.claim_changed(old, gone=True)
        if new is not None:
            is_freed |= self.devices.claim_changed(new, gone=False)
        if self.ending and old is not None and (new is None or new.status.allocation is None):
            self.ending.pop((old.metadata.namespace, old.metadata.name), None)
        waiting = self.nominations.holding({*taken_by_claim(old).touched}) if self.nominations else ()
        if waiting and (new is None or new.status.allocation is None):
            return Effect(devices=is_freed, nominated=_uids(waiting))
        return DEVICES if is_freed else NOTHING

    def _change_class(self, old: DeviceClass | None, new: DeviceClass | None) -> Effect:
        rule = self.devices.rule
        if new is not None:
            return EXTENDED_CLASSES if rule.upsert_class(new) else CLASSES
        assert old is not None
        return EXTENDED_CLASSES if rule.remove_class(old.metadata.name) else CLASSES

    def _change_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> Effect:
        self.pools.change_slice(old, new)
        if new is None:
            assert old is not None
            self.index.remove_slice(old.metadata.name)
        else:
            self.index.upsert_slice(self.pools.tainted(new))
        return DEVICES

    def _change_taint_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> Effect:
        """Update the taints of devices that the rule selects or has selected before. Returns the effect on refused
        pods.
        """
        if old is not None and new is not None and old.spec == new.spec:
            return NOTHING
        for pool in self.pools.change_rule(old, new):
            for piece in self.pools.slices_of(pool):
                self.index.upsert_slice(piece)
        return DEVICES


def _uids(nominations: Iterable[Nomination]) -> tuple[str, ...]:
    """Return the distinct uids of the nominated pods, in the order of the nominations."""
    return tuple(dict.fromkeys(one.pod.metadata.uid for one in nominations))


def spec_changed(old: Pod, new: Pod) -> bool:
    return old.spec is not new.spec and old.spec != new.spec


def _node_matters(old: Node, new: Node) -> bool:
    """Whether a node changed in a way that scheduling rules see. Heartbeats, for example, do not count."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.status.allocatable != new.status.allocatable
        or old.status.capacity != new.status.capacity
        or old.status.declaredFeatures != new.status.declaredFeatures
    )
