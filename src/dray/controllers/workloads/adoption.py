"""Ownership of dependents: found by their controller, adopted by selector if they have none, released if it matches
no more.

As in Kubernetes, a controller looks at the objects that it controls and at the orphans of its namespace. An owner
that is being deleted adopts nothing; before an adoption the server is asked whether it is, since the copy may lag
behind. Left out: what is done with the dependents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple

from dray.api.errors import Conflict, Invalid, NotFound
from dray.api.selectors import LabelRequirements
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.api.wire import Tree
from dray.background.thread import in_thread_if_large
from dray.background.turns import WRITE, take
from dray.client import Client, Informer, Object, PatchKind
from dray.client.interface import T
from dray.controllers.ownership import controller_reference
from dray.controllers.workloads.pods import is_deleting
from dray.controllers.workloads.writes import OwnWrites

BY_CONTROLLER = "controller"


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    return next((reference for reference in meta.ownerReferences if reference.controller), None)


def _controller_values(obj: Object) -> list[str]:
    reference = controller_of(obj.metadata)
    return [reference.uid] if reference is not None else [_orphans(obj.metadata.namespace)]


def _orphans(namespace: str) -> str:
    return f"orphans of {namespace}"  # a uid never contains spaces


def index_by_controller(informer: Informer[T]) -> None:
    """Add the index to an informer that `controlled` and `orphans` need."""
    informer.add_index(BY_CONTROLLER, _controller_values)


def controlled(informer: Informer[T], owner: Object) -> Sequence[T]:
    """Return the objects that the owner controls, whether or not its selector still matches them."""
    return informer.by_index(BY_CONTROLLER, owner.metadata.uid)


def orphans(informer: Informer[T], namespace: str) -> Sequence[T]:
    return informer.by_index(BY_CONTROLLER, _orphans(namespace))


class Claim(NamedTuple, Generic[T]):
    """The dependents that an owner keeps, adopts and releases."""

    own: list[T]
    adopt: list[T]
    release: list[T]


def sort_out(owner: Object, selector: LabelRequirements, own: Iterable[T], without_owner: Iterable[T]) -> Claim[T]:
    """Return which objects an owner keeps, adopts and releases, by its selector.

    `own` are the objects that the owner controls, `without_owner` those without controller.
    """
    kept: list[T] = []
    release: list[T] = []
    ending = is_deleting(owner)
    for obj in own:
        if selector.matches(obj.metadata.labels):
            kept.append(obj)
        elif not ending:
            release.append(obj)
    fitting = () if ending or selector.everything else without_owner
    adopt = [obj for obj in fitting if not is_deleting(obj) and selector.matches(obj.metadata.labels)]
    return Claim(kept, adopt, release)


class Adoption(Generic[T]):
    """Finds the dependents of one type and writes adoptions and releases."""

    def __init__(
        self,
        client: Client,
        type_: type[T],
        informer: Informer[T],
        writes: OwnWrites,
        *,
        adoptable: Callable[[T], bool] = lambda _: True,
        finalizer: str = "",
    ) -> None:
        self._client = client
        self._type = type_
        self._informer = informer
        self._writes = writes
        self._adoptable = adoptable
        self._finalizer = finalizer  # finalizer of dependents that still have to be counted, or ""
        index_by_controller(informer)

    async def claim(self, owner: Object, selector: LabelRequirements) -> list[T]:
        """Return the dependents of `owner`, including those adopted now. Dependents that do not match are released.

        Objects without a controller that match the selector are adopted if the owner still exists.
        """
        own, strays = controlled(self._informer, owner), orphans(self._informer, owner.metadata.namespace)
        found: Claim[T] = await in_thread_if_large(
            len(own) + len(strays), sort_out, owner, selector, own, filter(self._adoptable, strays)
        )
        await asyncio.gather(*(self._release(owner, obj) for obj in found.release))
        adopted: list[T | None] = []
        if found.adopt and await self._may_adopt(owner):
            adopted = await asyncio.gather(*(self._adopt(owner, obj) for obj in found.adopt))
        return [*found.own, *(obj for obj in adopted if obj is not None)]

    async def _may_adopt(self, owner: Object) -> bool:
        try:
            current = await self._client.get(type(owner), owner.metadata.name, owner.metadata.namespace)
        except NotFound:
            return False
        return current.metadata.uid == owner.metadata.uid and not is_deleting(current)

    async def _adopt(self, owner: Object, obj: T) -> T | None:
        metadata: Tree = {"ownerReferences": [controller_reference(owner)]}
        if self._finalizer:
            metadata["finalizers"] = [self._finalizer]
        return await self._patch(owner, obj, metadata)

    async def _release(self, owner: Object, obj: T) -> None:
        metadata: Tree = {"ownerReferences": [{"$patch": "delete", "uid": owner.metadata.uid}]}
        if self._finalizer:
            metadata["$deleteFromPrimitiveList/finalizers"] = [self._finalizer]
        await self._patch(owner, obj, metadata)

    async def _patch(self, owner: Object, obj: T, metadata: Tree) -> T | None:
        await take(WRITE)
        patch = {"metadata": {"uid": obj.metadata.uid, **metadata}}
        try:
            patched = await self._client.patch(
                self._type, obj.metadata.name, patch, obj.metadata.namespace, kind=PatchKind.STRATEGIC
            )
        except (NotFound, Conflict, Invalid):
            return None  # the object is gone, or another owner was faster: uid or controller differ
        self._writes.wrote(owner, patched)
        return patched
