"""Keeps PodGroups as long as they have pods.

The API server gives every group a finalizer. The finalizer is removed when the group is being deleted and none of its
pods may still run, so that a group's name means the same group for the whole life of a pod. An event names the pods
that delay the deletion. Left out: the claims of groups (`claims`), and whether a group is scheduled (the scheduler).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice

from dray.api import podclaims
from dray.api.errors import NotFound
from dray.api.podclaims import GROUP_FINALIZER
from dray.api.types.core import Pod
from dray.api.types.scheduling import PodGroup
from dray.client import Deltas, Key, key_of
from dray.client.consumers import ClaimConsumers
from dray.controllers.context import ControllerContext

WORKERS = 8
_NAMED = 3  # number of pods that an event names; a group may have thousands


class GroupController:
    """Maintains the finalizer of PodGroups."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._told: set[str] = set()  # uids of groups for which an event has named the remaining pods
        self._consumers = ClaimConsumers(context.informers, groups=True)
        self._controller = context.controller("pod_group", self._reconcile, WORKERS)
        self.run = self._controller.run
        self._groups = context.informers.informer(PodGroup)
        self._groups.add_handler(self._on_groups)
        context.informers.informer(Pod).add_handler(self._on_pods)

    def _on_groups(self, deltas: Deltas[PodGroup]) -> None:
        for old, new in deltas:
            if new is not None:
                self._controller.queue.add(key_of(new))
            elif old is not None:
                self._told.discard(old.metadata.uid)

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            pod = new or old
            assert pod is not None
            group = self._consumers.group_of(pod) if podclaims.group_name(pod) else None
            is_deleted = group is not None and group.metadata.deletionTimestamp is not None
            if group is not None and is_deleted and (new is None or podclaims.is_finished(new)):
                self._controller.queue.add(key_of(group))

    async def _reconcile(self, key: Key) -> float | None:
        group = self._groups.get(*key)
        if group is None:
            return None
        with suppress(NotFound):  # deleted meanwhile
            if group.metadata.deletionTimestamp is None:
                await self._keep(group)
            elif GROUP_FINALIZER in group.metadata.finalizers:
                await self._let_go(group)
        return None

    async def _let_go(self, group: PodGroup) -> None:
        """Remove the finalizer of a deleted group, or record an event if pods may still run."""
        if pods := await self._unfinished(group):
            self._tell(group, pods)
            return
        rest = [f for f in group.metadata.finalizers if f != GROUP_FINALIZER]
        await self._set_finalizers(group, rest)

    def _tell(self, group: PodGroup, pods: Sequence[Pod]) -> None:
        if group.metadata.uid not in self._told:
            self._told.add(group.metadata.uid)
            names = ", ".join(f"{pod.metadata.name} ({pod.status.phase})" for pod in pods[:_NAMED])
            others = " and others" if len(pods) > _NAMED else ""
            text = f"waiting for pods to finish or be deleted: {names}{others}"
            self._recorder.record(group, "WaitingForPods", text)

    async def _keep(self, group: PodGroup) -> None:
        """Add the finalizer to a group that lacks it."""
        if GROUP_FINALIZER not in group.metadata.finalizers:
            await self._set_finalizers(group, [*group.metadata.finalizers, GROUP_FINALIZER])

    async def _unfinished(self, group: PodGroup) -> Sequence[Pod]:
        """Return the first pods of the group that may still run. If none is known, the server is asked.

        Returns nothing if no pod of the group may still run.
        """
        name, namespace = group.metadata.name, group.metadata.namespace
        if pods := _first_unfinished(self._consumers.members(namespace, name)):
            return pods
        pods = (await self._client.list(Pod, namespace)).items
        return _first_unfinished(pod for pod in pods if podclaims.group_name(pod) == name)

    async def _set_finalizers(self, group: PodGroup, finalizers: Sequence[str]) -> PodGroup:
        meta = group.metadata
        said = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "finalizers": finalizers}
        return await self._client.patch(PodGroup, meta.name, {"metadata": said}, meta.namespace)


def _first_unfinished(pods: Iterable[Pod]) -> Sequence[Pod]:
    return [*islice((pod for pod in pods if not podclaims.is_finished(pod)), _NAMED + 1)]
