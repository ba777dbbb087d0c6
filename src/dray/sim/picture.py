"""The objects of a simulated cluster, and what the scheduler sees of them: nodes, devices, who holds what.

One place for every change, so that each has an inverse (`journal`). Left out: when things happen (`cluster`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeVar, cast

from dray.api.allocations import taken_by_claim
from dray.api.gates import FeatureGates
from dray.api.podclaims import Use, group_name, is_finished, uses_of
from dray.api.taints import selects, with_rules
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.api.wire import Wire
from dray.core.attempt import Placement
from dray.core.devices import Devices
from dray.scheduler.scheduler import index_of
from dray.sim.journal import UndoJournal
from dray.verdicts.neighbours import Neighbours
from dray.verdicts.nodes import NodeTable

W = TypeVar("W", bound=Wire)
Key = tuple[str, str]  # namespace and name


class SimulatedPicture:
    """Objects by type, namespace and name, with the scheduler's picture of them kept up to date."""

    def __init__(self, gates: FeatureGates) -> None:
        self.journal = UndoJournal()
        self._objects: dict[type[Wire], dict[Key, Any]] = {}
        self.table = NodeTable()
        self.index = index_of(gates)
        self.devices = Devices(self.index, self._claim, self.group_of, self.table, gates, time.monotonic)
        self.placement = Placement(self.table, Neighbours(self.table, self._namespace_labels), self.devices)

    def get(self, type_: type[W], name: str, namespace: str = "") -> W | None:
        return cast("W | None", self._objects.get(type_, {}).get((namespace, name)))

    def all(self, type_: type[W]) -> Iterator[W]:
        return iter(cast("list[W]", [*self._objects.get(type_, {}).values()]))

    def group_of(self, pod: Pod) -> PodGroup | None:
        name = group_name(pod)
        return self.get(PodGroup, name, pod.metadata.namespace) if name else None

    def claims_of(self, pod: Pod) -> Iterator[tuple[Use, ResourceClaim]]:
        """The claims of a pod that exist, each with how the pod uses it."""
        for use in uses_of(pod, self.group_of(pod)):
            claim = self.get(ResourceClaim, use.claim, pod.metadata.namespace) if use.claim else None
            if claim is not None:
                yield use, claim

    def put(self, new: Wire) -> None:
        """Add an object, or replace the one of the same name."""
        meta = cast(Any, new).metadata
        kept = self._objects.setdefault(type(new), {})
        key = meta.namespace, meta.name
        old = kept.get(key)
        kept[key] = new
        self._show(old, new)
        self.journal.record(partial(self.put, old) if old is not None else partial(self.drop, new))

    def drop(self, old: Wire) -> None:
        """Remove an object."""
        meta = cast(Any, old).metadata
        found = self._objects[type(old)].pop((meta.namespace, meta.name))
        self._show(found, None)
        self.journal.record(partial(self.put, found))

    # -- what the scheduler sees

    def _show(self, old: Any, new: Any) -> None:
        match new if new is not None else old:
            case Pod():
                self._show_pod(old, new)
            case Node():
                self._show_node(old, new)
            case ResourceSlice():
                self._publish(old.metadata.name if new is None else new)
            case DeviceClass():
                self._show_class(old, new)
            case DeviceTaintRule():
                self._show_rule(old, new)
            case ResourceClaim():
                self._show_claim(old, new)
            case _:
                pass

    def _show_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and new.spec.nodeName and not is_finished(new):
            self.table.place(new, new.spec.nodeName)
        elif old is not None:
            self.table.unplace(old.metadata.uid)

    def _show_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self.index.upsert_node(new)
            self.table.upsert(new, self.index.number(new.metadata.name))
        elif old is not None:
            self.table.remove(old.metadata.name)
            self.index.remove_node(old.metadata.name)

    def _publish(self, piece: ResourceSlice | str) -> None:
        if isinstance(piece, str):
            self.index.remove_slice(piece)
        else:
            self.index.upsert_slice(with_rules(piece, tuple(self.all(DeviceTaintRule))))

    def _show_class(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if new is not None:
            self.devices.rule.upsert_class(new)
        elif old is not None:
            self.devices.rule.remove_class(old.metadata.name)

    def _show_rule(self, *rules: DeviceTaintRule | None) -> None:
        for piece in self.all(ResourceSlice):
            if any(rule and selects(rule, piece.spec.driver, piece.spec.pool.name) for rule in rules):
                self._publish(piece)

    def _show_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if old is not None and taken_by_claim(old) == taken_by_claim(new):
            return
        if old is not None and not _goes_on(old, new):
            self.devices.claim_changed(old, gone=True)
        if new is not None:
            self.devices.claim_changed(new, gone=False)

    def _claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return self.get(ResourceClaim, name, namespace)

    def _namespace_labels(self, name: str) -> dict[str, str]:
        namespace = self.get(Namespace, name)
        return dict(namespace.metadata.labels) if namespace is not None else {}


def _goes_on(old: ResourceClaim, new: ResourceClaim | None) -> bool:
    """Whether a claim has devices as before, or gets them: then what was promised to it is not given back in between."""
    return new is not None and new.metadata.uid == old.metadata.uid and new.status.allocation is not None
