"""Deletion: immediately, after finalizers, or after the kubelet has stopped a pod.

An object with finalizers only gets a deletionTimestamp; the update that removes the last finalizer deletes the
object. A pod on a node gets a deletionTimestamp and its grace period, and is deleted when the kubelet deletes it with
grace period 0. A namespace is deleted when it is empty. The propagation policy is stored in the finalizers `orphan`
and `foregroundDeletion`, which the garbage collector handles.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec.structs import replace

from dray.api.errors import ApiError, Conflict, conflict, invalid, not_found, unsupported
from dray.api.podclaims import is_finished
from dray.api.resources import Resource
from dray.api.times import parse_timestamp, timestamp
from dray.api.types import core
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.api.types.meta import ObjectMeta
from dray.api.wire import Wire
from dray.apiserver.admission import AdmissionRequest, Chain
from dray.apiserver.read.listing import list_objects, name_of
from dray.apiserver.read.storage import Storage
from dray.apiserver.request import Answer, Request, RequestOptions
from dray.apiserver.wire.queries import OptionsInvalid
from dray.apiserver.write.commits import Commits
from dray.apiserver.write.definitions import CLEANUP, ending
from dray.apiserver.write.identity import now
from dray.background.turns import Steps
from dray.store import KeyVersion, RevisionConflict

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICIES = {"Orphan": ORPHAN, "Foreground": FOREGROUND, "Background": ""}
_ATTEMPTS = 16
_KEPT_PODS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


def gone_when_written(resource: Resource, obj: Wire) -> bool:
    """Return whether writing an object in this state deletes it, because nothing delays its deletion any more.

    The object has a deletionTimestamp, but no finalizers and no grace period.
    """
    metadata: ObjectMeta = obj.metadata  # type: ignore[attr-defined]  # every kind has metadata
    if metadata.deletionTimestamp is None or metadata.finalizers:
        return False
    if isinstance(obj, core.Namespace):
        return not obj.spec.finalizers
    return not metadata.deletionGracePeriodSeconds


class Deletion:
    """Executes the verbs delete and deletecollection."""

    def __init__(self, storage: Storage, commits: Commits, admission: Chain) -> None:
        self._storage = storage
        self._commits = commits
        self._admission = admission

    async def delete(self, request: Request, *, is_admitted: bool = False) -> Answer:
        """Delete an object, or mark it for deletion.

        Returns the object or a Status. Retries if another writer changes the object. With `is_admitted`, admission is
        skipped because the caller has already run it. Raises NotFound, or Conflict if a precondition fails or after
        too many attempts.
        """
        _check(request.options)
        for _ in range(_ATTEMPTS):
            current = self._storage.cache.get(request.resource.key(request.namespace, request.name))
            if current is None:
                raise not_found(request.resource, request.name)
            _check_preconditions(request, current)
            try:
                return await self._delete(request, current, is_admitted)
            except RevisionConflict:
                continue
        raise conflict(request.resource, request.name, "too many others write to it at the same time")

    async def delete_collection(self, request: Request) -> Answer:
        """Delete all objects that a list with the same options returns.

        Returns the objects, deleted or marked for deletion. Objects that are already deleted are ignored.
        """
        _check(request.options)
        found = await list_objects(self._storage.cache, request)
        deleted = []
        # breaks up long work on the event loop, because deletions often complete without waiting
        steps = Steps(request.user.name)
        await steps.begin()
        try:
            for version in found.versions or ():
                if gone := await self._delete_one(request, version):
                    deleted.append(gone)
                await steps.step()
        finally:
            steps.end()
        return Answer(versions=deleted, revision=self._storage.cache.revision)

    async def _delete_one(self, request: Request, version: KeyVersion) -> KeyVersion | None:
        """Delete one object of a collection. Returns its last state, or None if it is already deleted.

        Raises ApiError if the deletion fails otherwise.
        """
        metadata = version.object.metadata
        try:
            answer = await self.delete(
                replace(request, verb="delete", namespace=metadata.namespace, name=name_of(version))
            )
        except ApiError as error:
            if error.code != 404:
                raise
            return None
        return answer.version or version

    async def _delete(self, request: Request, current: KeyVersion, is_admitted: bool) -> Answer:
        """Make one attempt to delete or mark the object in state `current`.

        Returns the Answer. Raises RevisionConflict.
        """
        resource, old = request.resource, current.object
        admission = AdmissionRequest(
            request.user,
            "DELETE",
            resource,
            old.metadata.namespace,
            old.metadata.name,
            version=request.version,
            old=old,
            dry_run=request.options.dry_run,
            awaited=request.awaited,
        )
        if not is_admitted:
            await self._admission.admit(admission)
            await self._admission.validate(admission)
        policy = request.options.propagation_policy
        if not policy and resource.keeps_dependents:
            policy = "" if FOREGROUND in old.metadata.finalizers else "Orphan"
            if resource.kind == "Job":
                admission.warnings.append(_KEPT_PODS)
        marked = _marked(old, request.options, policy)
        if marked is None:
            version = await self._commits.remove(admission, current)
            return _gone(resource, version, admission.warnings)
        if marked == old:
            await admission.release()
            version = current
        else:
            version = await self._commits.write(admission, current.key, marked, expected=current.revision)
        code = 202 if request.options.propagation_policy == "Foreground" else 200
        return Answer(code=code, version=version, warnings=admission.warnings)


def _gone(resource: Resource, version: KeyVersion, warnings: list[str]) -> Answer:
    """Return the answer for a deleted object: the object for some kinds, otherwise a Status with its name and UID."""
    if resource.is_returned_when_deleted:
        return Answer(version=version, warnings=warnings)
    metadata = version.object.metadata
    details = {"name": metadata.name, "group": resource.group, "kind": resource.plural, "uid": metadata.uid}
    tree = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {k: v for k, v in details.items() if v},
    }
    return Answer(version=version, tree=tree, warnings=warnings)


def _check(options: RequestOptions) -> None:
    """Raise OptionsInvalid for an unknown propagationPolicy or a negative grace period."""
    policy, grace = options.propagation_policy, options.grace_period_seconds
    errors = []
    if policy and policy not in _POLICIES:
        errors.append(unsupported("propagationPolicy", policy, sorted(_POLICIES)))
    if grace is not None and grace < 0:
        errors.append(invalid("gracePeriodSeconds", grace, "must be greater than or equal to 0"))
    if errors:
        raise OptionsInvalid("DeleteOptions", errors)


def _check_preconditions(request: Request, current: KeyVersion) -> None:
    """Raise Conflict if the UID or resourceVersion of the preconditions is not that of the object.

    An empty precondition always holds.
    """
    options, resource = request.options, request.resource
    uid = current.object.metadata.uid
    if options.precondition_uid and options.precondition_uid != uid:
        why = (
            f"the UID in the precondition ({options.precondition_uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
    elif options.precondition_resource_version not in ("", str(current.revision)):
        why = (
            f"the ResourceVersion in the precondition ({options.precondition_resource_version}) does not match "
            f"the ResourceVersion in record ({current.revision}). The object might have been modified"
        )
    else:
        return
    qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    raise Conflict(
        f'Operation cannot be fulfilled on {qualified} "{request.name}": {why}',
        name=request.name,
        group=resource.group,
        kind=resource.kind,
    )


# How a deletion changes an object


def _marked(old: Any, options: RequestOptions, policy: str) -> Wire | None:
    """Return the object marked for deletion, `old` if nothing changes, or None if it can be deleted immediately."""
    metadata = old.metadata
    finalizers = _finalizers(metadata.finalizers, policy)
    if isinstance(old, CustomResourceDefinition) and metadata.deletionTimestamp is None:
        finalizers = (*(kept for kept in finalizers if kept != CLEANUP), CLEANUP)
    grace = _grace(old, options)
    if not finalizers and not grace and not _held(old):
        return None
    changed = replace(metadata, finalizers=finalizers)
    if metadata.deletionTimestamp is None or grace < (metadata.deletionGracePeriodSeconds or 0):
        # no grace period, and their generation does not change
        plain = isinstance(old, (core.Namespace, CustomResourceDefinition))
        changed = replace(
            changed,
            resourceVersion="",
            deletionTimestamp=_deadline(metadata, grace),
            deletionGracePeriodSeconds=None if plain else grace,
            generation=metadata.generation + 1 if metadata.generation and not plain else metadata.generation,
        )
    if changed == metadata:
        return cast(Wire, old)
    marked = replace(old, metadata=replace(changed, resourceVersion=""))
    if isinstance(old, core.Namespace):
        return cast(Wire, replace(marked, status=replace(old.status, phase="Terminating")))
    if isinstance(old, CustomResourceDefinition):
        return ending(cast(CustomResourceDefinition, marked), now())
    return cast(Wire, marked)


def _held(old: Any) -> bool:
    """Return whether a namespace has finalizers in its spec."""
    return isinstance(old, core.Namespace) and bool(old.spec.finalizers)


def _finalizers(present: tuple[str, ...], policy: str) -> tuple[str, ...]:
    """Return the finalizers with those of the propagation policy: `orphan`, `foregroundDeletion` or neither.

    An empty policy changes nothing.
    """
    if not policy:
        return present
    wanted = _POLICIES[policy]
    kept = tuple(f for f in present if f not in (ORPHAN, FOREGROUND) or f == wanted)
    return kept if not wanted or wanted in kept else (*kept, wanted)


def _grace(old: Any, options: RequestOptions) -> int:
    """Return the grace period in seconds: 0 except for a running pod that is assigned to a node.

    The request's period takes precedence over the pod's; without either it is 30 seconds. A second deletion can only
    shorten the period.
    """
    if not isinstance(old, core.Pod) or not old.spec.nodeName or is_finished(old):
        return 0
    own = old.spec.terminationGracePeriodSeconds
    grace = options.grace_period_seconds
    if grace is None:
        grace = own if own is not None else 30
    if old.metadata.deletionTimestamp is not None:  # a second deletion can only shorten the grace period
        return min(grace, old.metadata.deletionGracePeriodSeconds or 0)
    return grace


def _deadline(metadata: Any, grace: int) -> str:
    """Return the deletionTimestamp: now plus the grace period. A second deletion counts from the first.

    `grace` is in seconds.
    """
    if metadata.deletionTimestamp is None:
        return now(grace)
    begun = parse_timestamp(metadata.deletionTimestamp) - (metadata.deletionGracePeriodSeconds or 0)
    return timestamp(begun + grace)
