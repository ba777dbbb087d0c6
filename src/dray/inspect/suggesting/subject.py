"""A pod that waits and how it, its claims and its templates can be changed.

Most of a pod and all of a claim's spec is immutable, so a change is a new object of the same name. A pod that a workload
makes is changed there (`dray.inspect.suggesting.subject`); one that another controller owns is not changed at all, since its owner
would make it again as it was. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from dray.allocator.budget import StepMeter
from dray.api import podclaims
from dray.api.extended_resources import IN_MEMORY, ExtendedResources, extended_resource_claim, needs_of
from dray.api.objects import Object
from dray.api.reasons.causes.base import Cause, RequestCause
from dray.api.reasons.causes.conflicts import AlternativesShort
from dray.api.reasons.nodes import NodeVerdict
from dray.api.reasons.requested import RequestedDevices
from dray.api.reasons.suggestions import SuggestedChange
from dray.api.types.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from dray.api.types.core import Pod
from dray.api.types.meta import OwnerReference
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.wire import Tree, tree_of
from dray.inspect.asking import Ask, asks_of
from dray.inspect.changes import deleted, is_controlled, patched, replaced
from dray.inspect.hardware import Hardware
from dray.inspect.placement import ALL_GATES
from dray.inspect.snapshot import Snapshot
from dray.sim.cluster import Cluster
from dray.verdicts.demand import demand_of

Maker = Deployment | ReplicaSet | StatefulSet | DaemonSet
MAKERS: tuple[type[Any], ...] = (Deployment, ReplicaSet, StatefulSet, DaemonSet)


def maker_of(pod: Pod, snapshot: Snapshot) -> Maker | None:
    """The workload in which the spec of a pod is written, if it is known and can be changed."""
    found = _owner(pod, snapshot)
    if isinstance(found, ReplicaSet) and _controller(found) is not None:
        return _owner(found, snapshot)
    return found


def _controller(object_: Object) -> OwnerReference | None:
    return next((owner for owner in object_.metadata.ownerReferences if owner.controller), None)


def _owner(object_: Object, snapshot: Snapshot) -> Maker | None:
    reference = _controller(object_)
    if reference is None:
        return None
    type_ = next((one for one in MAKERS if one.__name__ == reference.kind), None)
    found = snapshot.get(type_, reference.name, object_.metadata.namespace) if type_ is not None else None
    return found if found is not None and found.metadata.uid == reference.uid else None


def with_template(maker: Maker, pod: Pod, edit: Callable[[Tree], None]) -> tuple[SuggestedChange, ...]:
    """The change of the template, and the end of the pod where its workload would leave it as it is."""
    old: Tree = tree_of(maker)["spec"]["template"]["spec"]
    new: Tree = tree_of(maker)["spec"]["template"]["spec"]
    edit(new)
    if old == new:
        return (deleted(pod),)
    change = patched(maker, {"spec": {"template": {"spec": _difference(old, new)}}})
    return (change,) if isinstance(maker, Deployment) else (change, deleted(pod))


def _difference(old: Tree, new: Tree) -> Tree:
    """The merge patch that leads from one tree to another."""
    patch: Tree = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if value != before:
                patch[key] = _difference(before, value)
        elif value != before:
            patch[key] = value
    return patch


_SIMULATED_PODS = 20_000  # of a cluster for which other pods are moved on trial
SpecEdit = Callable[[Tree], None]


class WaitingPod:
    """A pod that waits, and why."""

    def __init__(self, snapshot: Snapshot, pod: Pod, nodes: tuple[NodeVerdict, ...], meter: StepMeter | None) -> None:
        self.snapshot = snapshot
        self.pod = pod
        self.nodes = nodes
        self.namespace = pod.metadata.namespace
        self.hardware = Hardware(snapshot.pools, meter)
        self.group = snapshot.group_of(pod)

        self._maker = maker_of(self.pod, snapshot)

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def label(self) -> str:
        """Where the spec of the pod is written: in itself, or in a workload."""
        maker = self._maker
        return f"{maker.kind.lower()} {maker.metadata.name}" if maker is not None else f"pod {self.name}"

    def named(self, pod: Pod) -> str:
        """A pod by its name, with its namespace if that is another one."""
        meta = pod.metadata
        return f"pod {meta.name}" if meta.namespace == self.namespace else f"pod {meta.namespace}/{meta.name}"

    @cached_property
    def budgets(self) -> tuple[PodDisruptionBudget, ...] | None:
        """The disruption budgets of the cluster; None for a user who may not read them."""
        hidden = self.snapshot.unreadable | self.snapshot.partial
        return None if PodDisruptionBudget in hidden else self.snapshot.all(PodDisruptionBudget)

    @cached_property
    def simulated(self) -> Cluster | None:
        """The cluster in a simulation in which the pod has come and waits; None where budgets are not known."""
        if self.budgets is None or len(self.snapshot.all(Pod)) > _SIMULATED_PODS:
            return None
        cluster = Cluster((one for found in self.snapshot.objects.values() for one in found), gates=ALL_GATES)
        cluster.settle()
        return cluster if cluster.is_waiting(self.pod.metadata.uid) else None

    # The pod

    def again(self, edit: SpecEdit) -> tuple[SuggestedChange, ...]:
        """The pod made again with another spec, free of its node: by itself, or by the workload that makes it."""
        if self._maker is not None:
            return with_template(self._maker, self.pod, edit)
        if is_controlled(self.pod):
            return ()

        def change(tree: Tree) -> None:
            tree["spec"].pop("nodeName", None)
            edit(tree["spec"])

        return (replaced(self.pod, change),)

    # Claims

    def claim(self, name: str) -> ResourceClaim | None:
        return self.snapshot.get(ResourceClaim, name, self.namespace)

    def ask(self, asked: RequestedDevices | None) -> Ask | None:
        """The request that a cause speaks of; None for one that the pod does not write itself."""
        claim = self.claim(asked.claim) if asked is not None and asked.claim != IN_MEMORY else None
        return asks_of(claim, self.snapshot).get(asked.request) if asked is not None and claim else None

    def asks(self, claim: ResourceClaim) -> list[Ask]:
        return [*asks_of(claim, self.snapshot).values()]

    def pending(self) -> Iterator[ResourceClaim]:
        """The claims of the pod that have no devices, the one for its extended resources included."""
        for use in podclaims.uses_of(self.pod, self.group):
            claim = self.claim(use.claim) if use.claim else None
            if claim is not None and claim.status.allocation is None:
                yield claim
        served = ExtendedResources(self.snapshot.classes.values()).served(demand_of(self.pod).extended)
        if served:
            yield extended_resource_claim(self.pod, needs_of(self.pod, served))

    def claim_again(self, name: str, edit: SpecEdit) -> tuple[SuggestedChange, ...]:
        """A claim that has no devices made again with another spec: itself, or its template and then the pod."""
        claim = self.claim(name)
        if claim is None or claim.status.allocation is not None:
            return ()
        if not is_controlled(claim):
            return (replaced(claim, lambda tree: edit(tree["spec"])),)
        if not podclaims.is_controlled_by(claim, self.pod.metadata.uid):
            return ()
        template = self._template(name)
        if template is None:
            return ()
        pod = self.again(lambda spec: None) or (deleted(self.pod),)
        return (replaced(template, lambda tree: edit(tree["spec"]["spec"])), *pod)

    def _template(self, claim: str) -> ResourceClaimTemplate | None:
        for entry in self.pod.spec.resourceClaims:
            if podclaims.use_of(self.pod, entry, self.group).claim == claim:
                name = entry.resourceClaimTemplateName or ""
                return self.snapshot.get(ResourceClaimTemplate, name, self.namespace)
        return None

    def request_again(self, asked: RequestedDevices, edit: SpecEdit) -> tuple[SuggestedChange, ...]:
        """The claim of a request made again with an edit of that request, or of one of its alternatives."""

        def change(spec: Tree) -> None:
            for request in requests_in(spec, asked.request):
                edit(request)

        return self.claim_again(asked.claim, change)


def requests_in(spec: Tree, name: str) -> Iterator[dict[str, Any]]:
    """The request, or the alternative, of a claim's spec by the name that the allocator gives it."""
    request, _, alternative = name.partition("/")
    for one in spec["devices"]["requests"]:
        if one["name"] == request:
            subs = [sub for sub in one.get("firstAvailable", ()) if sub["name"] == alternative]
            yield from [one["exactly"]] if "exactly" in one else subs


def causes_in(cause: Cause) -> Iterator[Cause]:
    """A cause, or those of its alternatives, the one with the fewest devices first: it needs the smallest change."""
    if isinstance(cause, AlternativesShort):
        yield from sorted((one.cause for one in cause.alternatives), key=_needed)
    else:
        yield cause


def _needed(cause: Cause) -> int:
    return cause.asked.needed if isinstance(cause, RequestCause) else 0
