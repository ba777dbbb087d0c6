"""Creates and deletes pods for their owners, in growing batches and with an event for each pod.

Each batch is twice as large as the one before as long as all requests succeed, so an owner whose pods are refused
costs one request and not a thousand. Each write is remembered until the informer shows it (`writes`), and waits for
its turn in the event loop (`dray.background.turns`), so that other requests go first. Left out: the number of pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from dray.api.errors import ApiError, Forbidden, NotFound
from dray.api.types.core import Pod
from dray.background.turns import WRITE, take
from dray.client import Client, EventRecorder, Object, Tree
from dray.controllers.workloads.writes import OwnWrites

# Limit of writes in one sync, so that owners of many pods do not block others. Kubernetes' figure.
BURST = 500

W = TypeVar("W")


class PodWrites(NamedTuple):
    """Number of pods that were created or deleted, and the first error.

    The error is None if all requests succeeded.
    """

    done: int
    error: ApiError | None = None


async def in_batches(items: Sequence[W], write: Callable[[W], Awaitable[ApiError | None]]) -> PodWrites:
    """Write the first `BURST` items in batches of 1, 2, 4 and so on, up to a batch with an error.

    Returns the number of successful writes and the first error.
    """
    items, done, size = items[:BURST], 0, 1

    async def when_there_is_room(item: W) -> ApiError | None:
        await take(WRITE)
        return await write(item)

    while done < len(items):
        errors = await asyncio.gather(*map(when_there_is_room, items[done : done + size]))
        done += errors.count(None)
        if failed := [error for error in errors if error is not None]:
            return PodWrites(done, failed[0])
        size *= 2
    return PodWrites(done)


class PodControl:
    """Creates and deletes pods on behalf of their owners."""

    def __init__(self, client: Client, recorder: EventRecorder, writes: OwnWrites) -> None:
        self._client = client
        self._recorder = recorder
        self._writes = writes

    async def create(self, owner: Object, wanted: Sequence[W], make: Callable[[W], Tree]) -> PodWrites:
        """Create a pod for each of the first `BURST` items until one is refused; `make` returns the pod for an item.

        Returns the number of created pods and the first error.
        """
        return await in_batches(wanted, lambda wish: self._create(owner, make(wish)))

    async def delete(self, owner: Object, pods: Sequence[Pod]) -> PodWrites:
        """Delete the first `BURST` pods until a deletion is refused. Returns the number deleted and the first error."""
        return await in_batches(pods, lambda pod: self._delete(owner, pod))

    async def _create(self, owner: Object, tree: Tree) -> ApiError | None:
        try:
            pod = await self._client.create(Pod, tree, namespace=owner.metadata.namespace)
        except ApiError as error:
            if not namespace_ends(error):
                self._recorder.warning(owner, "FailedCreate", f"Error creating: {error.message}")
            return error
        self._writes.wrote(owner, pod)
        self._recorder.record(owner, "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        return None

    async def _delete(self, owner: Object, pod: Pod) -> ApiError | None:
        meta = pod.metadata
        try:
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            return None
        except ApiError as error:
            self._recorder.warning(owner, "FailedDelete", f"Error deleting: {error.message}")
            return error
        self._writes.deleted(owner, pod)
        self._recorder.record(owner, "SuccessfulDelete", f"Deleted pod: {meta.name}")
        return None


def namespace_ends(error: ApiError | None) -> bool:
    """Whether a request was refused only because the namespace is being deleted, so no report or retry is needed.

    Returns False if `error` is None.
    """
    if not isinstance(error, Forbidden):
        return False
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.details.get("causes") or ())
