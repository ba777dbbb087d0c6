"""What happens in the cluster, as the informers tell it: each handler keeps the picture and gives hints to the queue.

The picture is the table of nodes and placed pods, and the devices with who holds them. Left out: which pods a hint helps
(`hints`).
"""

from __future__ import annotations

from collections.abc import Container

from dray.api import podclaims
from dray.api.claim_lifecycle import ClaimState, state_of
from dray.api.extended_resources import is_special
from dray.api.taints import selects, with_rules
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.client import Deltas, SharedInformers
from dray.client.consumers import ClaimConsumers
from dray.scheduler.hints import Hints, spec_changed
from dray.scheduler.parts import SchedulerParts


class SchedulerHandlers:
    """Keeps the picture of one scheduler."""

    def __init__(
        self,
        parts: SchedulerParts,
        hints: Hints,
        informers: SharedInformers,
        consumers: ClaimConsumers,
        profiles: Container[str],
    ) -> None:
        self._queue, self._table, self._devices, self._teller = parts.queue, parts.table, parts.devices, parts.teller
        self._index, self._conditions = parts.devices.index, parts.conditions
        self._hints = hints
        self._consumers = consumers
        self._profiles = profiles
        self._claims = informers.informer(ResourceClaim)
        self._slices = informers.informer(ResourceSlice)
        self._taint_rules: dict[str, DeviceTaintRule] = {}

    def on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            pod = new or old
            assert pod is not None
            if new is None or podclaims.is_finished(new):
                self._gone(pod)
            elif new.spec.nodeName:
                self._placed(old, new)
            elif new.spec.schedulerName in self._profiles:
                self._hints.pod_waits(old, new)

    def _gone(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._queue.remove(uid)
        self._teller.forget(uid)
        if self._table.node_of(uid):
            self._table.unplace(uid)
            self._hints.room_came()
            self._left_claims(pod)

    def _left_claims(self, pod: Pod) -> None:
        """Try pods again that cannot run where a claim is allocated, now that one user less keeps it there."""
        for use in self._consumers.uses(pod) if podclaims.has_claims(pod) else ():
            claim = self._claims.get(pod.metadata.namespace, use.claim) if use.claim else None
            if state_of(claim) is ClaimState.ALLOCATED:
                self._claim_changed(pod.metadata.namespace, use.claim or "")

    def _placed(self, old: Pod | None, new: Pod) -> None:
        self._table.place(new, new.spec.nodeName)
        self._queue.remove(new.metadata.uid)
        if old is None or not old.spec.nodeName or old.metadata.labels != new.metadata.labels:
            self._hints.neighbours_changed()
        elif spec_changed(old, new):  # it may need less now
            self._hints.room_came()

    def on_nodes(self, deltas: Deltas[Node]) -> None:
        for old, new in deltas:
            if new is None:
                assert old is not None
                self._table.remove(old.metadata.name)
                self._index.remove_node(old.metadata.name)
                self._hints.neighbours_changed()  # its domain may be gone
            elif old is None or _node_matters(old, new):
                self._index.upsert_node(new)
                self._table.upsert(new, self._index.number(new.metadata.name))
                self._hints.node_changed()

    def on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        freed = False
        for old, new in deltas:
            claim = new or old
            assert claim is not None
            freed |= self._devices.claim_changed(claim, gone=new is None)
            self._conditions.claim_changed(claim, gone=new is None)
            if new is None and is_special(claim) and (owner := podclaims.made_for(claim, "Pod")) is not None:
                self._hints.special_claim_gone(owner.uid)
            self._claim_changed(claim.metadata.namespace, claim.metadata.name)
        if freed:
            self._hints.devices_changed()

    def _claim_changed(self, namespace: str, claim: str) -> None:
        for pod in self._consumers.of(namespace, claim):
            self._hints.claim_changed(pod)

    def on_groups(self, deltas: Deltas[PodGroup]) -> None:
        for old, new in deltas:
            group = new or old
            if group is not None and (old is None or new is None):
                for pod in self._consumers.members(group.metadata.namespace, group.metadata.name):
                    self._hints.claim_changed(pod)

    def on_classes(self, deltas: Deltas[DeviceClass]) -> None:
        rule, extended = self._devices.rule, False
        for old, new in deltas:
            if new is None:
                assert old is not None
                extended |= rule.remove_class(old.metadata.name)
            else:
                extended |= rule.upsert_class(new)
        self._hints.classes_changed(extended=extended)

    def on_slices(self, deltas: Deltas[ResourceSlice]) -> None:
        for old, new in deltas:
            if new is None:
                assert old is not None
                self._index.remove_slice(old.metadata.name)
            else:
                self._publish(new)
        self._hints.devices_changed()

    def on_taint_rules(self, deltas: Deltas[DeviceTaintRule]) -> None:
        """Taint the devices that a rule means now, and clear those that it meant before."""
        changed: list[DeviceTaintRule] = []
        for old, new in deltas:
            if old is not None and new is not None and old.spec == new.spec:
                continue
            changed += [rule for rule in (old, new) if rule is not None]
            if new is not None:
                self._taint_rules[new.metadata.name] = new
            elif old is not None:
                self._taint_rules.pop(old.metadata.name, None)
        for piece in self._slices.list() if changed else ():
            if any(selects(rule, piece.spec.driver, piece.spec.pool.name) for rule in changed):
                self._publish(piece)
        if changed:
            self._hints.devices_changed()

    def _publish(self, piece: ResourceSlice) -> None:
        self._index.upsert_slice(with_rules(piece, self._taint_rules.values()))


def _node_matters(old: Node, new: Node) -> bool:
    """Whether a node changed in a way that a rule can see; heartbeats do not."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.status.allocatable != new.status.allocatable
        or old.status.capacity != new.status.capacity
        or old.status.declaredFeatures != new.status.declaredFeatures
    )
