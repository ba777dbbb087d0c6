"""Decides the next step of a StatefulSet: numbered pods, created in order, replaced from the highest number down.

Pure: takes the set, its pods and revisions; returns the pods to create and delete now, and the status. With
OrderedReady one step is taken at a time, and none while an earlier pod is unavailable; with Parallel all steps at
once. Pods below the partition follow the current revision, the others the update revision.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from dray.api.podclaims import is_finished
from dray.api.types.apps import ControllerRevision, StatefulSet, StatefulSetStatus
from dray.api.types.core import PersistentVolumeClaim, Pod, PodTemplateSpec
from dray.api.wire import Tree, tree_of
from dray.controllers.ownership import controller_reference
from dray.controllers.workloads.history import REVISION_LABEL
from dray.controllers.workloads.podcontrol import BURST
from dray.controllers.workloads.pods import is_available, is_deleting, is_ready, pod_tree
from dray.controllers.workloads.rollout import share

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


class Revisions(NamedTuple):
    """The current revision and the update revision of a StatefulSet; often the same."""

    current: ControllerRevision
    update: ControllerRevision


class StatefulPlan(NamedTuple):
    """Pods to create, by number and revision, and pods to delete."""

    create: Sequence[tuple[int, ControllerRevision]] = ()
    delete: Sequence[Pod] = ()


class StatefulView(NamedTuple):
    """A StatefulSet with its pods and revisions at one moment.

    `pods` are by ordinal. `now` is in seconds since 1970.
    """

    stateful_set: StatefulSet
    pods: Mapping[int, Pod]
    revisions: Revisions
    now: float

    @property
    def wanted(self) -> range:
        start = self.stateful_set.spec.ordinals.start if self.stateful_set.spec.ordinals else 0
        replicas = self.stateful_set.spec.replicas
        return range(start, start + (1 if replicas is None else replicas))

    @property
    def partition(self) -> int:
        update = self.stateful_set.spec.updateStrategy.rollingUpdate
        return (update.partition or 0) if update is not None else 0

    def healthy(self, pod: Pod) -> bool:
        """Whether a pod is available and not being deleted.

        Available means ready for at least minReadySeconds.
        """
        available = is_available(pod, self.stateful_set.spec.minReadySeconds, self.now)
        return available and not is_deleting(pod)

    def revision_for(self, ordinal: int) -> ControllerRevision:
        """Return the revision that the pod with this number should have."""
        rolls = self.stateful_set.spec.updateStrategy.type == "RollingUpdate"
        behind = rolls and ordinal < self.wanted.start + self.partition
        return self.revisions.current if behind else self.revisions.update


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """Return the number in a pod's name, or None if the name is not one of the set's.

    The name is NAME-NUMBER without leading zeros.
    """
    match = re.fullmatch(rf"{re.escape(stateful_set.metadata.name)}-(0|[1-9]\d*)", pod.metadata.name)
    return int(match[1]) if match else None


def numbered(stateful_set: StatefulSet, pods: Sequence[Pod]) -> dict[int, Pod]:
    """Return the pods whose names have a number, by that number."""
    return {number: pod for pod in pods if (number := ordinal_of(stateful_set, pod)) is not None}


def plan(view: StatefulView) -> StatefulPlan:
    """Return the next step: grow, then shrink, then continue the rolling update."""
    in_order = view.stateful_set.spec.podManagementPolicy != "Parallel"
    grown = _grow(view, in_order)
    if grown is not None:
        return grown
    shrunk = _shrink(view, in_order)
    return shrunk if shrunk is not None else _roll(view)


def _grow(view: StatefulView, in_order: bool) -> StatefulPlan | None:
    """Return missing pods to create and ended pods to replace, or None if the plan has no such step.

    With `in_order` the plan handles one pod. An empty plan means to wait until an unhealthy pod is available; None is
    also returned if that pod has an old revision.
    """
    create: list[tuple[int, ControllerRevision]] = []
    delete: list[Pod] = []
    for ordinal in view.wanted:
        pod = view.pods.get(ordinal)
        if pod is None:
            create.append((ordinal, view.revision_for(ordinal)))
        elif is_finished(pod) and not is_deleting(pod):
            delete.append(pod)
        elif not in_order or view.healthy(pod):
            continue
        elif _is_stuck(view, ordinal, pod):
            return None
        else:
            return StatefulPlan()
        if in_order or len(create) + len(delete) >= BURST:
            return StatefulPlan(create, delete)
    return StatefulPlan(create, delete) if create or delete else None


def _is_stuck(view: StatefulView, ordinal: int, pod: Pod) -> bool:
    """Whether an unhealthy pod has an old revision, so that replacing it may help."""
    return not is_deleting(pod) and revision_of(pod) != view.revision_for(ordinal).metadata.name


def _shrink(view: StatefulView, in_order: bool) -> StatefulPlan | None:
    surplus = [pod for ordinal, pod in sorted(view.pods.items(), reverse=True) if ordinal not in view.wanted]
    if not surplus:
        return None
    going = [pod for pod in surplus if not is_deleting(pod)]
    if not in_order:
        return StatefulPlan(delete=going) if going else None
    if len(going) < len(surplus):
        return StatefulPlan()  # one at a time
    return StatefulPlan(delete=going[:1])


def _roll(view: StatefulView) -> StatefulPlan:
    """Return pods of another revision to replace, from the highest number down, as far as maxUnavailable allows.

    The plan is empty if nothing is to be replaced now, or with another update strategy.
    """
    if view.stateful_set.spec.updateStrategy.type != "RollingUpdate":
        return StatefulPlan()
    there = [ordinal for ordinal in sorted(view.pods, reverse=True) if ordinal in view.wanted]
    unavailable = len(view.wanted) - sum(view.healthy(view.pods[ordinal]) for ordinal in there)
    room = max(1, _most_unavailable(view)) - unavailable
    going: list[Pod] = []
    for ordinal in there:
        pod = view.pods[ordinal]
        if revision_of(pod) == view.revision_for(ordinal).metadata.name or is_deleting(pod):
            continue
        if not view.healthy(pod):
            going.append(pod)  # the pod is not available anyway
        elif room > 0:
            going.append(pod)
            room -= 1
        else:
            break
        if room <= 0:
            break
    return StatefulPlan(delete=going)


def _most_unavailable(view: StatefulView) -> int:
    update = view.stateful_set.spec.updateStrategy.rollingUpdate
    bound = update.maxUnavailable if update is not None else None
    return 1 if bound is None else share(bound, len(view.wanted), up=False)


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION_LABEL, "")


# Trees


def identified_pod(
    stateful_set: StatefulSet, ordinal: int, revision: ControllerRevision, template: PodTemplateSpec
) -> Tree:
    """Return the pod with this number, as a revision's template describes it."""
    name = f"{stateful_set.metadata.name}-{ordinal}"
    tree = pod_tree(stateful_set, template)
    metadata, spec = tree["metadata"], tree["spec"]
    metadata.pop("generateName")
    metadata["name"] = name
    identity = {POD_NAME: name, POD_INDEX: str(ordinal), REVISION_LABEL: revision.metadata.name}
    metadata["labels"] = {**metadata.get("labels", {}), **identity}
    spec["hostname"], spec["subdomain"] = name, stateful_set.spec.serviceName
    claims = {
        template.metadata.name: claim_name(stateful_set, template, ordinal) for template in _templates(stateful_set)
    }
    kept = [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]
    made = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims.items()]
    if kept or made:
        spec["volumes"] = [*made, *kept]
    return tree


def _templates(stateful_set: StatefulSet) -> Sequence[PersistentVolumeClaim]:
    return stateful_set.spec.volumeClaimTemplates


def claim_name(stateful_set: StatefulSet, template: PersistentVolumeClaim, ordinal: int) -> str:
    return f"{template.metadata.name}-{stateful_set.metadata.name}-{ordinal}"


def claim_trees(stateful_set: StatefulSet, ordinal: int) -> list[Tree]:
    """Return the PersistentVolumeClaims that the pod with this number needs.

    With retention policy whenDeleted Delete the set owns them.
    """
    selector = stateful_set.spec.selector
    trees = []
    for template in _templates(stateful_set):
        tree = tree_of(template)
        tree.pop("status", None)
        metadata = tree.setdefault("metadata", {})
        metadata["name"] = claim_name(stateful_set, template, ordinal)
        metadata["namespace"] = stateful_set.metadata.namespace
        metadata["labels"] = {**metadata.get("labels", {}), **(selector.matchLabels if selector else {})}
        if _retention(stateful_set, "whenDeleted") == "Delete":
            metadata["ownerReferences"] = [controller_reference(stateful_set)]
        trees.append(tree)
    return trees


def _retention(stateful_set: StatefulSet, occasion: str) -> str:
    policy = stateful_set.spec.persistentVolumeClaimRetentionPolicy
    return str(getattr(policy, occasion)) if policy is not None else "Retain"


def surplus_claims(view: StatefulView) -> list[str]:
    """Return the names of PVCs of removed ordinals without pods, if the retention policy whenScaled is Delete."""
    if _retention(view.stateful_set, "whenScaled") != "Delete":
        return []
    gone = range(view.wanted.stop, view.wanted.stop + _LOOK_AHEAD)
    return [
        claim_name(view.stateful_set, template, ordinal)
        for ordinal in gone
        if ordinal not in view.pods
        for template in _templates(view.stateful_set)
    ]


_LOOK_AHEAD = 100  # ordinals above the wanted ones whose claims are looked up


# Status


def status_of(view: StatefulView) -> StatefulSetStatus:
    stateful_set, pods = view.stateful_set, [pod for pod in view.pods.values() if not is_finished(pod)]
    current, update = (revision.metadata.name for revision in view.revisions)
    well = [pod for pod in pods if view.healthy(pod)]
    status = replace(
        stateful_set.status,
        observedGeneration=stateful_set.metadata.generation,
        replicas=len(pods),
        readyReplicas=sum(is_ready(pod) and not is_deleting(pod) for pod in pods),
        availableReplicas=len(well),
        currentReplicas=sum(revision_of(pod) == current and not is_deleting(pod) for pod in pods),
        updatedReplicas=sum(revision_of(pod) == update and not is_deleting(pod) for pod in pods),
        currentRevision=current,
        updateRevision=update,
    )
    done = current != update and status.updatedReplicas == status.replicas == len(view.wanted)
    rolls = stateful_set.spec.updateStrategy.type == "RollingUpdate"
    if done and rolls and not view.partition and status.readyReplicas == status.replicas:
        return replace(status, currentRevision=update, currentReplicas=status.updatedReplicas)
    return status
