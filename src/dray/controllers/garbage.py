"""Garbage collection: objects whose owners are gone are deleted; owners wait for dependents or orphan them.

Informers of all resources give the facts, `Dependents` finds the objects that name an owner, `ownership` decides. An
owner missing from the informers' copies is looked up at the server before anything is deleted because of it. Every
write names the resource version on which it was decided, so a decision from old facts fails and is made again. Custom
resources are followed while they are defined. Left out: kinds that this server does not have; their dependents are
kept.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

from dray.api.errors import NotFound
from dray.api.resources import BY_KIND, BY_TYPE, RESOURCES, Resource
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.background.turns import WRITE, in_turns, take
from dray.client import Controller, Deltas, Informer, Object, Tree, type_of
from dray.controllers.context import ControllerContext
from dray.controllers.custom import CustomResources
from dray.controllers.ownership import (
    FOREGROUND,
    ORPHAN,
    AwaitDependents,
    Delete,
    OwnershipDecision,
    OwnerStanding,
    Release,
    RemoveFinalizer,
    SetOwners,
    Unblock,
    decide_deleting,
    decide_owned,
    is_deleting,
    owners_tree,
)

log = logging.getLogger(__name__)

_FIND = 2  # units of work to find one dependent and to queue it
WORKERS = 20  # as in Kubernetes; most of the time they wait for the server


class Dependent(NamedTuple):
    """Identity of one object, including its uid."""

    resource: Resource
    namespace: str
    name: str
    uid: str


class Dependents:
    """Table of the objects that name each owner, for all kinds, because every deleted object is looked up in it."""

    def __init__(self) -> None:
        # by uid of the owner: dependents, each with whether it blocks the owner's deletion
        self._by_owner: dict[str, dict[Dependent, bool]] = {}
        self._blocking: dict[str, int] = {}  # by uid of the owner: the number of blocking dependents

    def changed(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        """Update the table after an object's owner references changed, or the object was created or deleted.

        `old` is None for a new object, `new` for a deleted object.
        """
        before = old.metadata.ownerReferences if old is not None else ()
        after = new.metadata.ownerReferences if new is not None else ()
        if before == after:  # most objects have no owners before and after
            return
        if old is not None:
            for ref in before:
                self._remove(ref.uid, _dependent(resource, old.metadata))
        if new is not None:
            for ref in after:
                self._add(ref, _dependent(resource, new.metadata))

    def _add(self, ref: OwnerReference, dependent: Dependent) -> None:
        found = self._by_owner.setdefault(ref.uid, {})
        blocks = bool(ref.blockOwnerDeletion) and dependent.uid != ref.uid
        self._count(ref.uid, blocks - found.get(dependent, False))
        found[dependent] = blocks

    def _remove(self, owner: str, dependent: Dependent) -> None:
        found = self._by_owner.get(owner)
        if found is not None:
            self._count(owner, -found.pop(dependent, False))
            if not found:
                del self._by_owner[owner]

    def _count(self, owner: str, more: int) -> None:
        if more:
            count = self._blocking.get(owner, 0) + more
            if count:
                self._blocking[owner] = count
            else:
                del self._blocking[owner]

    def blocks(self, uid: str) -> bool:
        """Whether a dependent blocks the deletion of the owner with this uid."""
        return uid in self._blocking

    def has(self, uid: str) -> bool:
        """Whether any object names the owner with this uid."""
        return uid in self._by_owner

    def of(self, uid: str) -> list[Dependent]:
        """Return the objects that name the owner with this uid, except the owner itself."""
        return [dependent for dependent in self._by_owner.get(uid, ()) if dependent.uid != uid]


def collected() -> tuple[Resource, ...]:
    """Return the resources whose objects may have owners or dependents. Events have neither, and there are many."""
    return tuple(r for r in RESOURCES if "delete" in r.verbs and r.alias_of is None and r.plural != "events")


class GarbageCollector:
    """Deletes, orphans or unblocks objects according to their owner references."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._controller: Controller[Dependent | str] = context.controller(
            "garbage_collector", self._reconcile, WORKERS
        )
        self._dependents = Dependents()
        self._informers: dict[Resource, Informer[Any]] = {}
        for resource in collected():
            self._informers[resource] = context.informers.informer(type_of(resource))
        for resource, informer in self._informers.items():
            informer.add_handler(partial(self._changed, resource))
        self._clock = context.clock
        self._following: dict[Resource, asyncio.Task[None]] = {}  # tasks of informers for custom resources
        self._custom = CustomResources(context, self._custom_changed)

    async def run(self) -> None:
        try:
            await self._controller.run()
        finally:
            for task in self._following.values():
                task.cancel()

    def _custom_changed(self, old: Resource | None, new: Resource | None) -> None:
        """Start to follow the objects of a custom resource that is served, or stop if it is no longer served."""
        if old is not None and (task := self._following.pop(old, None)) is not None:
            task.cancel()
            for obj in self._informers.pop(old).list():
                self._dependents.changed(old, obj, None)
        if new is not None:
            informer: Informer[Any] = Informer(self._client, type_of(new), clock=self._clock)
            informer.add_handler(partial(self._changed, new))
            self._informers[new] = informer
            self._following[new] = asyncio.create_task(informer.run(), name=f"informer {new.qualified}")

    def _resource(self, obj: Object) -> Resource:
        """Return the resource of an object from an informer. Raises `NotFound` if its kind is no longer served."""
        known = BY_TYPE.get(cast(Any, type(obj)))
        if known is not None:
            return known
        found = self._custom.by_kind(obj.apiVersion.rpartition("/")[0], obj.kind)
        if found is None:
            raise NotFound(f"{obj.apiVersion} {obj.kind} is not served any more")
        return found

    # Event handlers

    def _changed(self, resource: Resource, deltas: Deltas[Any]) -> None:
        for delta in deltas:
            old, new = delta
            if old is not None and new is not None and old.metadata.ownerReferences == new.metadata.ownerReferences:
                if _asks_for_us(new.metadata):  # most changes concern neither owners nor dependents
                    self._look(resource, new.metadata)
                continue
            self._dependents.changed(resource, old, new)
            if new is None:
                if self._dependents.has(uid := delta.object.metadata.uid):
                    self._controller.queue.add(uid)
            elif _asks_for_us(new.metadata) or self._suspicious(new):
                self._look(resource, new.metadata)
            if old is not None and old.metadata.ownerReferences:
                self._tell_waiting_owners(old)

    def _suspicious(self, new: Any) -> bool:
        """Whether an owner of an object is missing from the copies or waits for deletion."""
        references = new.metadata.ownerReferences
        return any(self._known(new.metadata, ref) is not OwnerStanding.SOLID for ref in references)

    def _tell_waiting_owners(self, old: Any) -> None:
        """Queue owners in foreground deletion that a deleted or changed dependent no longer blocks."""
        for ref in old.metadata.ownerReferences:
            owner = self._cached(old.metadata, ref)
            if owner is None or self._dependents.blocks(ref.uid):
                continue
            if is_deleting(owner.metadata, FOREGROUND):
                self._look(self._resource(owner), owner.metadata)

    def _look(self, resource: Resource, meta: ObjectMeta) -> None:
        self._controller.queue.add(_dependent(resource, meta))

    # Facts

    def _found(self, dependent: Dependent) -> Object | None:
        """Return the object from the informers' copies, or None if the object with this uid is gone."""
        informer = self._informers.get(dependent.resource)
        found: Object | None = informer.get(dependent.namespace, dependent.name) if informer is not None else None
        return found if found is not None and found.metadata.uid == dependent.uid else None

    def _cached(self, meta: ObjectMeta, ref: OwnerReference) -> Object | None:
        """Return the owner from the informers' copies, or None if its kind is unknown or no copy has its uid."""
        resource = self._owner_resource(meta, ref)
        if resource is None:
            return None
        owner: Object | None = self._informers[resource].get(meta.namespace if resource.namespaced else "", ref.name)
        return owner if owner is not None and owner.metadata.uid == ref.uid else None

    def _known(self, meta: ObjectMeta, ref: OwnerReference) -> OwnerStanding:
        """Return the state of an owner reference according to the informers' copies alone.

        An owner whose kind is unknown counts as SOLID.
        """
        if self._owner_resource(meta, ref) is None:
            return OwnerStanding.SOLID
        owner = self._cached(meta, ref)
        return OwnerStanding.GONE if owner is None else _standing(owner)

    async def _standing(self, meta: ObjectMeta, ref: OwnerReference) -> OwnerStanding:
        """Return the state of an owner reference. The server is asked before an owner counts as gone.

        An owner counts as SOLID if its kind is unknown or not served.
        """
        known = self._known(meta, ref)
        resource = self._owner_resource(meta, ref)
        if known is not OwnerStanding.GONE or resource is None:
            return known
        try:
            owner = await self._client.get(type_of(resource), ref.name, meta.namespace)
        except NotFound as error:
            # If the answer has no name, the whole resource is missing, which says nothing about the owner.
            return OwnerStanding.GONE if error.details.get("name") else OwnerStanding.SOLID
        return _standing(owner) if owner.metadata.uid == ref.uid else OwnerStanding.GONE

    # Acting

    async def _reconcile(self, item: Dependent | str) -> None:
        """Handle one object, or queue all dependents of a deleted owner given by its uid."""
        if isinstance(item, str):
            async for some in in_turns(self._dependents.of(item), _FIND):
                for dependent in some:
                    self._controller.queue.add(dependent)
        else:
            await self._reconcile_object(item)

    async def _reconcile_object(self, item: Dependent) -> None:
        obj = self._found(item)
        if obj is None:
            return
        meta, dependents = obj.metadata, await self._dependents_of(item.uid)
        if meta.deletionTimestamp is not None:
            decision = decide_deleting(meta, dependents)
        else:
            owners = [await self._standing(meta, ref) for ref in meta.ownerReferences]
            decision = decide_owned(meta, owners, dependents)
        log.debug("%s %s/%s: %s", item.resource.kind, item.namespace, item.name, decision)
        with suppress(NotFound):  # deleted meanwhile
            await self._act(obj, decision)

    async def _dependents_of(self, uid: str) -> list[Object]:
        """Return the existing objects that name this owner, from the informers' copies."""
        found: list[Object] = []
        async for some in in_turns(self._dependents.of(uid), _FIND):
            found += filter(None, map(self._found, some))
        return found

    async def _act(self, obj: Any, decision: OwnershipDecision) -> None:
        """Carry out a decision about an object."""
        match decision:
            case Delete(propagation):
                await self._delete(obj, propagation)
            case SetOwners(owners) | Unblock(owners):
                await self._patch(obj, {"ownerReferences": owners_tree(owners)})
            case RemoveFinalizer(finalizer):
                await self._remove_finalizer(obj, finalizer)
            case Release(dependents):
                for dependent in dependents:
                    await take(WRITE)
                    await self._release(dependent, obj.metadata.uid)
                await self._remove_finalizer(obj, ORPHAN)
            case AwaitDependents(dependents):
                async for some in in_turns(dependents, _FIND):
                    for dependent in some:
                        self._look(self._resource(dependent), dependent.metadata)

    async def _delete(self, obj: Any, propagation: str) -> None:
        meta = obj.metadata
        await self._client.delete(
            type_of(self._resource(obj)),
            meta.name,
            meta.namespace,
            uid=meta.uid,
            resource_version=meta.resourceVersion,
            propagation=propagation,
        )

    async def _release(self, dependent: Any, owner: str) -> None:
        """Remove an owner from a dependent's owner references."""
        rest = [ref for ref in dependent.metadata.ownerReferences if ref.uid != owner]
        with suppress(NotFound):  # deleted meanwhile
            await self._patch(dependent, {"ownerReferences": owners_tree(rest)})

    async def _remove_finalizer(self, obj: Any, finalizer: str) -> None:
        await self._patch(obj, {"finalizers": [f for f in obj.metadata.finalizers if f != finalizer]})

    async def _patch(self, obj: Any, metadata: Tree) -> None:
        meta = obj.metadata
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resourceVersion, **metadata}}
        await self._client.patch(type_of(self._resource(obj)), meta.name, patch, meta.namespace)

    def _owner_resource(self, meta: ObjectMeta, ref: OwnerReference) -> Resource | None:
        """Return the resource of an owner, or None if the reference cannot be judged.

        That is the case for kinds that are not collected, and for a cluster-wide object that names a namespaced
        owner, whose namespace is unknown.
        """
        group = ref.apiVersion.rpartition("/")[0]
        resource = BY_KIND.get((group, ref.kind)) or self._custom.by_kind(group, ref.kind)
        if resource is None or resource not in self._informers or (resource.namespaced and not meta.namespace):
            return None
        return resource


def _dependent(resource: Resource, meta: ObjectMeta) -> Dependent:
    return Dependent(resource, meta.namespace, meta.name, meta.uid)


def _asks_for_us(meta: ObjectMeta) -> bool:
    return meta.deletionTimestamp is not None and (FOREGROUND in meta.finalizers or ORPHAN in meta.finalizers)


def _standing(owner: Object) -> OwnerStanding:
    return OwnerStanding.WAITING if is_deleting(owner.metadata, FOREGROUND) else OwnerStanding.SOLID
