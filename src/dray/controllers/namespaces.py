"""Deletion of a namespace: deletes everything in it, waits until that is gone, then releases the namespace.

The server marks a deleted namespace and refuses new content. This controller deletes the pods first and all other
content after the last pod is gone, so that a network policy outlives the pods that it restricts. Conditions report
what remains. The finalizer `kubernetes` in the namespace's spec is removed last. Left out: content of new namespaces
(`accounts`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from dray.api.errors import ApiError, NotFound
from dray.api.resources import BY_TYPE, RESOURCES, Resource
from dray.api.times import parse_timestamp, timestamp
from dray.api.types.core import Namespace, NamespaceCondition, Pod
from dray.client import Deltas, Object, Tree, type_of, with_conditions
from dray.controllers.context import ControllerContext
from dray.controllers.custom import CustomResources

FINALIZER = "kubernetes"
_PODS = BY_TYPE[Pod]
WORKERS = 8
# Delay before anything is deleted: `kubectl delete -f` deletes a Namespace first and should still find the other
# objects of its file. Content that takes time (pods that stop, finalizers) is checked again after a tenth of the time
# it took so far.
GRACE_SECONDS = 2.0
_SHORTEST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 5.0


# For each condition: type, reason and message prefix if something remains, reason and message if nothing remains.
_CONDITIONS = (
    (
        "NamespaceDeletionContentFailure",
        "ContentDeletionFailed",
        "Failed to delete all resource types: ",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "SomeResourcesRemain",
        "Some resources are remaining: ",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: ",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
)


class Remaining(NamedTuple):
    """Objects that are still in a namespace after everything was deleted, their finalizers, and errors."""

    counts: dict[str, int]  # by qualified resource name
    finalizers: dict[str, int]
    errors: tuple[str, ...]

    @property
    def nothing(self) -> bool:
        return not self.counts and not self.errors


def contents() -> tuple[Resource, ...]:
    """Return the namespaced resources whose objects can be deleted."""
    return tuple(r for r in RESOURCES if r.namespaced and "delete" in r.verbs and r.alias_of is None)


class NamespaceController:
    """Empties and removes namespaces that were deleted."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._gates = context.gates
        self._custom = CustomResources(context)
        self._namespaces = context.informers.informer(Namespace)
        self._namespaces.add_handler(self._on_namespaces)
        self._controller = context.controller("namespace", self._reconcile, WORKERS)
        self.run = self._controller.run

    def _on_namespaces(self, deltas: Deltas[Namespace]) -> None:
        for old, new in deltas:
            if new is None or new.metadata.deletionTimestamp is None:
                continue
            if old is None or old.metadata.deletionTimestamp is None:
                self._controller.queue.add_after(new.metadata.name, GRACE_SECONDS)
            elif old.spec != new.spec:
                self._controller.queue.add(new.metadata.name)

    async def _reconcile(self, name: str) -> float | None:
        try:
            namespace = await self._client.get(Namespace, name)
        except NotFound:
            return None
        if namespace.metadata.deletionTimestamp is None or FINALIZER not in namespace.spec.finalizers:
            return None
        left = await self._empty(name)
        await self._report(namespace, left)
        if not left.nothing:
            return self._patience(namespace)
        await self._finalize(name)
        return None

    async def _empty(self, name: str) -> Remaining:
        """Delete the pods and, once they are gone, everything else. Returns the remaining objects.

        `name` is the name of the namespace.
        """
        left, unserved = await self._delete((_PODS,), name)
        if left.nothing:
            custom = (resource for resource in self._custom.all() if resource.namespaced)
            left, unserved = await self._delete((*contents(), *custom), name)
        if left.nothing:
            await self._release(unserved)
        return left

    async def _delete(self, resources: Iterable[Resource], name: str) -> tuple[Remaining, list[Object]]:
        """Delete the objects of resources. Returns the remaining objects.

        The second list holds those of kinds whose gate is off. Errors of requests are part of the remaining ones.
        Resources that are not served are skipped.
        """
        errors, items, unserved = [], dict[str, tuple[Object, ...]](), list[Object]()
        for resource in resources:
            try:
                found = (await self._client.list(type_of(resource), name)).items
                if any(obj.metadata.deletionTimestamp is None for obj in found):
                    await self._client.delete_collection(type_of(resource), name)
                    found = (await self._client.list(type_of(resource), name)).items
                if found and self._gates.served(resource.gate):
                    items[resource.qualified] = found
                else:
                    unserved.extend(found)
            except NotFound:
                continue  # not served
            except ApiError as error:
                errors.append(f"{resource.qualified}: {error.message}")
        return remaining(items, errors), unserved

    async def _release(self, unserved: list[Object]) -> None:
        """Remove the finalizers of objects of kinds whose gate is off.

        The controllers that would do so do not run. Done last, because a finalizer protects what other objects in the
        namespace still use.
        """
        for obj in unserved:
            meta = obj.metadata
            patch = {"metadata": {"uid": meta.uid, "finalizers": None}}
            with suppress(NotFound):  # deleted meanwhile
                await self._client.patch(type(obj), meta.name, patch, meta.namespace)

    async def _finalize(self, name: str) -> None:
        namespace = await self._client.get(Namespace, name)
        tree: Tree = msgspec.to_builtins(namespace)
        tree["spec"] = {"finalizers": [f for f in namespace.spec.finalizers if f != FINALIZER]}
        with suppress(NotFound):  # deleted meanwhile
            await self._client.update(Namespace, tree, name=name, subresource="finalize")

    async def _report(self, namespace: Namespace, left: Remaining) -> None:
        """Write the conditions of the namespace, unless nothing remains and it has none."""
        if left.nothing and not namespace.status.conditions:
            return
        now = timestamp(self._clock.time())
        wanted = [
            NamespaceCondition(now, message, reason, status, name) for name, status, reason, message in told(left)
        ]
        status = replace(with_conditions(namespace.status, *wanted), phase="Terminating")
        if status != namespace.status:
            await self._client.patch_status(namespace, status)

    def _patience(self, namespace: Namespace) -> float:
        """Return the seconds until the next check, a tenth of the time since the deletion.

        The result stays between the shortest and the longest wait.
        """
        since = self._clock.time() - parse_timestamp(namespace.metadata.deletionTimestamp or "")
        return min(max(since / 10, _SHORTEST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)


def remaining(items: dict[str, tuple[Object, ...]], errors: list[str]) -> Remaining:
    """Return the number of remaining objects of each resource, and of the finalizers that hold them.

    `items` are the remaining objects by resource, `errors` the texts of failed requests.
    """
    finalizers: dict[str, int] = {}
    for objects in items.values():
        for obj in objects:
            for finalizer in obj.metadata.finalizers:
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
    return Remaining({name: len(objects) for name, objects in items.items()}, finalizers, tuple(errors))


def told(left: Remaining) -> list[tuple[str, str, str, str]]:
    """Return type, status, reason and message of each condition of a namespace that is being emptied.

    The status is "True" if the condition describes something that remains or failed, otherwise "False".
    """
    counts = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(left.counts.items()))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(left.finalizers.items()))
    conditions = []
    for text, (name, reason, message, good_reason, good_message) in zip(
        ("; ".join(left.errors), counts, held), _CONDITIONS, strict=True
    ):
        conditions.append(
            (name, "True", reason, message + text) if text else (name, "False", good_reason, good_message)
        )
    return conditions
