"""Changes of objects as carried by suggestions: created from typed objects, and applied to a snapshot.

Applying a change simulates the controllers as far as scheduling depends on them: a deleted pod releases its claims, a
pod with a controller is created again, and templates create claims if quotas allow. No I/O. Left out: which changes
help (`suggesting`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api import podclaims
from dray.api.claim_lifecycle import with_consumers
from dray.api.gates import FeatureGates
from dray.api.manifests import object_of
from dray.api.objects import Object
from dray.api.reasons.suggestions import ChangeVerb, SuggestedChange
from dray.api.types.apps import ReplicaSet
from dray.api.types.core import Pod, PodResourceClaimStatus, PodStatus, PodTemplateSpec
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.types.scheduling import PodGroup
from dray.api.wire import Tree, tree_of
from dray.controllers.generated import claim_for, claim_name
from dray.inspect.quotas import quota_cause
from dray.inspect.snapshot import Snapshot

TreeEdit = Callable[[Tree], None]
_KEPT = ("name", "namespace", "labels", "annotations")  # metadata fields kept when an object is created again


# Creating changes


def manifest_of(object_: Object) -> Tree:
    """Return the manifest of an object, without status and metadata that the cluster adds."""
    tree = tree_of(object_)
    tree.pop("status", None)
    tree["metadata"] = {key: value for key, value in tree["metadata"].items() if key in _KEPT}
    return tree


def created(tree: Tree) -> SuggestedChange:
    """Return the change that creates an object.

    `tree` is the manifest of the object.
    """
    meta = tree["metadata"]
    return SuggestedChange(
        ChangeVerb.CREATE, tree["apiVersion"], tree["kind"], meta["name"], meta.get("namespace", ""), body=tree
    )


def replaced(object_: Object, edit: TreeEdit) -> SuggestedChange:
    """Return the change that deletes an object and creates it again with an edit applied.

    The status and metadata that the cluster adds are lost. `edit` changes the manifest in place.
    """
    tree = manifest_of(object_)
    edit(tree)
    return replace(created(tree), verb=ChangeVerb.REPLACE)


def patched(object_: Object, body: Tree) -> SuggestedChange:
    """Return the change that applies a merge patch to an object.

    `body` is the merge patch.
    """
    meta = object_.metadata
    return SuggestedChange(ChangeVerb.PATCH, object_.apiVersion, object_.kind, meta.name, meta.namespace, body=body)


def deleted(object_: Object) -> SuggestedChange:
    """Return the change that deletes an object."""
    meta = object_.metadata
    return SuggestedChange(ChangeVerb.DELETE, object_.apiVersion, object_.kind, meta.name, meta.namespace)


def evicted(pod: Pod) -> SuggestedChange:
    """Return the change that evicts a pod."""
    return replace(deleted(pod), verb=ChangeVerb.EVICT)


def is_controlled(object_: Object) -> bool:
    """Whether a controller owns the object and would create it again after deletion."""
    return any(owner.controller for owner in object_.metadata.ownerReferences)


# Applying them


def applied(snapshot: Snapshot, changes: Iterable[SuggestedChange]) -> Snapshot:
    """Return a copy of the snapshot after some changes.

    A change of an object that does not exist has no effect. Claims of waiting pods are then created from templates.
    """
    trial = _Trial(snapshot)
    for change in changes:
        trial.apply(change)
    return trial.outcome()


class _Trial:
    """A snapshot to which changes are applied."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._objects: dict[type[Any], list[Any]] = {type_: [*all_] for type_, all_ in snapshot.objects.items()}

    def apply(self, change: SuggestedChange) -> None:
        """Apply one change. Has no effect if the object to change does not exist."""
        old = self._find(change)
        match change.verb:
            case ChangeVerb.CREATE:
                self._put(None, _made(change.body))
            case ChangeVerb.REPLACE if old is not None:
                self._drop(old)
                self._put(None, _made(change.body))
            case ChangeVerb.PATCH if old is not None:
                from dray.apiserver.write.patches.merge_patch import merge_patch  # few suggestions are patches

                new = msgspec.convert(merge_patch(tree_of(old), change.body), type(old))
                self._put(old, new)
                self._roll_out(new)
            case ChangeVerb.DELETE | ChangeVerb.EVICT if old is not None:
                self._drop(old)
                if isinstance(old, Pod) and is_controlled(old):
                    self._put(None, _pristine(old))

    def _roll_out(self, changed: Any) -> None:
        """Replace the waiting pods of a changed workload by pods from its new template.

        Pods with a node stay. Has no effect on objects without a pod template.
        """
        template = getattr(changed.spec, "template", None) if hasattr(changed, "spec") else None
        if not isinstance(template, PodTemplateSpec):
            return
        sets = {
            one.metadata.uid for one in self._objects.get(ReplicaSet, ()) if _owner_uid(one) == changed.metadata.uid
        }
        for pod in [*self._objects.get(Pod, ())]:
            if _owner_uid(pod) in {changed.metadata.uid, *sets} and not pod.spec.nodeName:
                self._drop(pod)
                self._put(None, replace(_pristine(pod), spec=template.spec))

    def outcome(self) -> Snapshot:
        """Create the claims of waiting pods from templates. Returns the resulting snapshot."""
        after = self._seen()
        for pod in after.all(Pod):
            if not pod.spec.nodeName and not podclaims.is_finished(pod):
                self._make_claims(after, pod)
        return self._seen()

    def _seen(self) -> Snapshot:
        objects = {type_: tuple(found) for type_, found in self._objects.items()}
        return Snapshot(objects, self._snapshot.unreadable, self._snapshot.unserved, self._snapshot.partial)

    def _find(self, change: SuggestedChange) -> Any:
        for found in self._objects.values():
            for one in found:
                if (one.kind, one.metadata.name, one.metadata.namespace) == (
                    change.kind,
                    change.name,
                    change.namespace,
                ):
                    return one
        return None

    def _put(self, old: Any, new: Any) -> None:
        kept = self._objects.setdefault(type(new), [])
        if old is None:
            kept.append(new)
        else:
            kept[kept.index(old)] = new

    def _drop(self, old: Any) -> None:
        self._objects[type(old)].remove(old)
        if isinstance(old, Pod):
            for claim in [*self._objects.get(ResourceClaim, ())]:
                self._let_go(claim, old.metadata.uid)

    def _let_go(self, claim: ResourceClaim, uid: str) -> None:
        """Remove a deleted pod's reservation from a claim, or delete the claim if the pod controls it."""
        if podclaims.is_controlled_by(claim, uid):
            self._objects[ResourceClaim].remove(claim)
            return
        left = with_consumers(claim, [one for one in claim.status.reservedFor if one.uid != uid])
        if left is claim:
            return
        if not left.status.reservedFor and claim.metadata.deletionTimestamp is not None:
            self._objects[ResourceClaim].remove(claim)
        else:
            self._put(claim, left)

    # -- claims from templates

    def _make_claims(self, snapshot: Snapshot, pod: Pod) -> None:
        made = [*self._claims_for(snapshot, pod, snapshot.group_of(pod))]
        if made:
            statuses = (*pod.status.resourceClaimStatuses, *made)
            self._put(pod, replace(pod, status=replace(pod.status, resourceClaimStatuses=statuses)))

    def _claims_for(self, snapshot: Snapshot, pod: Pod, group: PodGroup | None) -> Iterable[PodResourceClaimStatus]:
        """Create the missing claims of a pod if quotas allow. Yields a status entry for each.

        Entries whose claim exists, is not needed, or has no template in the snapshot are left out.
        """
        for entry in pod.spec.resourceClaims:
            use = podclaims.use_of(pod, entry, group)
            shared = podclaims.group_entry(entry, group)
            template = snapshot.get(
                ResourceClaimTemplate, (shared or entry).resourceClaimTemplateName or "", pod.metadata.namespace
            )
            if use.claim is not None or not use.needed or template is None:
                continue
            owner: Pod | PodGroup = group if use.by_group and group is not None else pod
            claim = self._generated(owner, shared.name if shared is not None else entry.name, template)
            if quota_cause(snapshot, pod.metadata.namespace, claim) is None:
                if all(one.metadata.name != claim.metadata.name for one in self._objects.get(ResourceClaim, ())):
                    self._put(None, claim)
                yield PodResourceClaimStatus(name=entry.name, resourceClaimName=claim.metadata.name)

    def _generated(self, owner: Pod | PodGroup, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
        """Return the claim generated from a template for an entry of the owner.

        `entry` is the name of the entry. The UID is made up.
        """
        claim = claim_for(owner, entry, template, claim_name(owner, entry))
        return replace(claim, metadata=replace(claim.metadata, uid=f"trial-{claim.metadata.name}"))


def _owner_uid(object_: Object) -> str:
    return next((owner.uid for owner in object_.metadata.ownerReferences if owner.controller), "")


def _made(body: Tree) -> Any:
    made: Any = object_of(copy.deepcopy(body), FeatureGates())
    meta = made.metadata
    return replace(made, metadata=replace(meta, uid=f"trial-{meta.namespace}-{meta.name}"))


def _pristine(pod: Pod) -> Pod:
    """Return a pod as its controller would create it again: new uid, no node, empty status."""
    meta = replace(pod.metadata, uid=f"{pod.metadata.uid}-again", deletionTimestamp=None)
    return replace(pod, metadata=meta, spec=replace(pod.spec, nodeName=""), status=PodStatus())
