"""A waiting pod, and how it, its claims and its templates can be changed.

Most of a pod and all of a claim's spec are immutable, so a change means a new object of the same name. For a pod of a
known workload, the workload's template is changed. Pods of other controllers are not changed, because the controller
would create them again unchanged. No I/O.
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
    """Return the workload whose template defines the spec of a pod, or None if unknown or not changeable.

    For a ReplicaSet that is controlled itself, this is its controller, if changeable.
    """
    found = _owner(pod, snapshot)
    if isinstance(found, ReplicaSet) and _controller(found) is not None:
        return _owner(found, snapshot)
    return found


def _controller(object_: Object) -> OwnerReference | None:
    return next((owner for owner in object_.metadata.ownerReferences if owner.controller), None)


def _owner(object_: Object, snapshot: Snapshot) -> Maker | None:
    """Return the changeable workload that controls an object, or None.

    None also if the object of that name has another UID.
    """
    reference = _controller(object_)
    if reference is None:
        return None
    type_ = next((one for one in MAKERS if one.__name__ == reference.kind), None)
    found = snapshot.get(type_, reference.name, object_.metadata.namespace) if type_ is not None else None
    return found if found is not None and found.metadata.uid == reference.uid else None


def with_template(maker: Maker, pod: Pod, edit: Callable[[Tree], None]) -> tuple[SuggestedChange, ...]:
    """Return the changes of a workload's template, and the deletion of the pod if the workload would not replace it.

    Only a Deployment replaces its pods. If the edit changes nothing, only the pod is deleted.
    """
    old: Tree = tree_of(maker)["spec"]["template"]["spec"]
    new: Tree = tree_of(maker)["spec"]["template"]["spec"]
    edit(new)
    if old == new:
        return (deleted(pod),)
    change = patched(maker, {"spec": {"template": {"spec": _difference(old, new)}}})
    return (change,) if isinstance(maker, Deployment) else (change, deleted(pod))


def _difference(old: Tree, new: Tree) -> Tree:
    """Return the merge patch that turns the old tree into the new one."""
    patch: Tree = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if value != before:
                patch[key] = _difference(before, value)
        elif value != before:
            patch[key] = value
    return patch


_SIMULATED_PODS = 20_000  # largest cluster, in pods, for which moves are simulated
SpecEdit = Callable[[Tree], None]


class WaitingPod:
    """A waiting pod with the context needed to suggest changes."""

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
        """Object in which the pod's spec is defined: the pod itself or its workload, like `deployment NAME`."""
        maker = self._maker
        return f"{maker.kind.lower()} {maker.metadata.name}" if maker is not None else f"pod {self.name}"

    def named(self, pod: Pod) -> str:
        """Return `pod NAME`, with the namespace if it differs from that of the waiting pod."""
        meta = pod.metadata
        return f"pod {meta.name}" if meta.namespace == self.namespace else f"pod {meta.namespace}/{meta.name}"

    @cached_property
    def budgets(self) -> tuple[PodDisruptionBudget, ...] | None:
        """Disruption budgets of the cluster; None if the user may not read them."""
        hidden = self.snapshot.unreadable | self.snapshot.partial
        return None if PodDisruptionBudget in hidden else self.snapshot.all(PodDisruptionBudget)

    @cached_property
    def simulated(self) -> Cluster | None:
        """Simulated cluster in which the pod waits.

        None if disruption budgets are unknown, if there are too many pods, or if the pod does not wait in the
        simulation.
        """
        if self.budgets is None or len(self.snapshot.all(Pod)) > _SIMULATED_PODS:
            return None
        cluster = Cluster((one for found in self.snapshot.objects.values() for one in found), gates=ALL_GATES)
        cluster.settle()
        return cluster if cluster.is_waiting(self.pod.metadata.uid) else None

    # The pod

    def again(self, edit: SpecEdit) -> tuple[SuggestedChange, ...]:
        """Return the changes that recreate the pod with an edited spec and without a node, directly or by its
        workload.

        Empty if another controller owns the pod.
        """
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
        """Return the request that a cause names, or None if the claim does not exist or is for extended resources."""
        claim = self.claim(asked.claim) if asked is not None and asked.claim != IN_MEMORY else None
        return asks_of(claim, self.snapshot).get(asked.request) if asked is not None and claim else None

    def asks(self, claim: ResourceClaim) -> list[Ask]:
        return [*asks_of(claim, self.snapshot).values()]

    def pending(self) -> Iterator[ResourceClaim]:
        """Yield the pod's unallocated claims, including the claim for its extended resources.

        The latter is generated and not stored in the cluster.
        """
        for use in podclaims.uses_of(self.pod, self.group):
            claim = self.claim(use.claim) if use.claim else None
            if claim is not None and claim.status.allocation is None:
                yield claim
        served = ExtendedResources(self.snapshot.classes.values()).served(demand_of(self.pod).extended)
        if served:
            yield extended_resource_claim(self.pod, needs_of(self.pod, served))

    def claim_again(self, name: str, edit: SpecEdit) -> tuple[SuggestedChange, ...]:
        """Return the changes that recreate an unallocated claim with an edited spec, directly or by its template and
        pod.

        Empty if the claim does not exist, is allocated or belongs to another owner.
        """
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
        """Return the template of one of the pod's generated claims, or None.

        `claim` is the name of the claim. None if no entry has this claim or the template does not exist.
        """
        for entry in self.pod.spec.resourceClaims:
            if podclaims.use_of(self.pod, entry, self.group).claim == claim:
                name = entry.resourceClaimTemplateName or ""
                return self.snapshot.get(ResourceClaimTemplate, name, self.namespace)
        return None

    def request_again(self, asked: RequestedDevices, edit: SpecEdit) -> tuple[SuggestedChange, ...]:
        """Return the changes that create a claim again with an edit of one of its requests or alternatives.

        Empty if the claim cannot be created again.
        """

        def change(spec: Tree) -> None:
            for request in requests_in(spec, asked.request):
                edit(request)

        return self.claim_again(asked.claim, change)


def requests_in(spec: Tree, name: str) -> Iterator[dict[str, Any]]:
    """Yield the request or alternative of a claim spec with this allocator name.

    The name is REQUEST or REQUEST/ALTERNATIVE. Yields nothing if there is none.
    """
    request, _, alternative = name.partition("/")
    for one in spec["devices"]["requests"]:
        if one["name"] == request:
            subs = [sub for sub in one.get("firstAvailable", ()) if sub["name"] == alternative]
            yield from [one["exactly"]] if "exactly" in one else subs


def causes_in(cause: Cause) -> Iterator[Cause]:
    """Yield the cause itself, or the causes of its alternatives, fewest needed devices first."""
    if isinstance(cause, AlternativesShort):
        yield from sorted((one.cause for one in cause.alternatives), key=_needed)
    else:
        yield cause


def _needed(cause: Cause) -> int:
    return cause.asked.needed if isinstance(cause, RequestCause) else 0
