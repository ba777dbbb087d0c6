"""Making and deleting pods for an owner: in growing batches, with an event for each, remembered until the copy shows it.

A batch is twice the size of the one before as long as all goes well, so an owner whose pods are refused costs one
request and not a thousand. Left out: how many pods there should be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from dray.api.errors import ApiError, Forbidden, NotFound
from dray.api.types.core import Pod
from dray.client import Client, EventRecorder, Object, Tree
from dray.controllers.workloads.writes import OwnWrites

# So many at once and no more: an owner with a great wish lets the others have their turn. Kubernetes' figure.
BURST = 500


class PodWrites(NamedTuple):
    """How many were made or deleted, and the first failure."""

    done: int
    error: ApiError | None = None


class PodControl:
    """Writes pods on behalf of their owners."""

    def __init__(self, client: Client, recorder: EventRecorder, writes: OwnWrites) -> None:
        self._client = client
        self._recorder = recorder
        self._writes = writes

    async def create(self, owner: Object, trees: Sequence[Tree]) -> PodWrites:
        """Create pods until one is refused; a refusal is an event and the end of this attempt."""
        done, size = 0, 1
        while done < len(trees):
            batch = trees[done : done + size]
            errors = await asyncio.gather(*(self._create(owner, tree) for tree in batch))
            done += errors.count(None)
            if failed := [error for error in errors if error is not None]:
                return PodWrites(done, failed[0])
            size *= 2
        return PodWrites(done)

    async def delete(self, owner: Object, pods: Sequence[Pod]) -> PodWrites:
        errors = await asyncio.gather(*(self._delete(owner, pod) for pod in pods))
        failed = [error for error in errors if error is not None]
        return PodWrites(len(pods) - len(failed), failed[0] if failed else None)

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
    """Whether a refusal only says that the namespace is on its way out: nothing to report and nothing to repeat."""
    if not isinstance(error, Forbidden):
        return False
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.details.get("causes") or ())
