"""Writes the PodGroupInitiallyScheduled condition of PodGroups, like Kubernetes' scheduler.

The condition becomes True once enough pods of a group have a node, and then never changes. Before, it is False with
the reason why the group waits. Left out: conditions of pods (`pod_status`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection

from dray.api import podclaims
from dray.api.errors import ApiError, NotFound
from dray.api.reasons import wording
from dray.api.reasons.nodes import Unschedulable
from dray.api.times import timestamp
from dray.api.types.core import Pod
from dray.api.types.meta import Condition
from dray.api.types.scheduling import PodGroup, PodGroupStatus
from dray.client import Client, Deltas, SharedInformers, change_status, with_conditions
from dray.client.consumers import ClaimConsumers
from dray.core.gangs import GroupKey, min_count
from dray.scheduler.pod_status import SCHEDULER_ERROR, UNSCHEDULABLE, is_wrong
from dray.scheduler.tasks import Tasks

log = logging.getLogger(__name__)

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


class GroupReporter:
    """Reports why PodGroups wait. This base class reports nothing; it is used when PodGroups are disabled."""

    def waits(self, pod: Pod, why: Unschedulable) -> None:
        """Report why a pod's group waits, unless enough of its pods have nodes."""

    def failed(self, group: PodGroup, error: Exception) -> None:
        """Report that the placement of a group could not be written."""


class GroupConditions(GroupReporter):
    """Writes the condition of PodGroups whose pods this scheduler places."""

    def __init__(self, client: Client, informers: SharedInformers, tasks: Tasks, schedulers: Collection[str]) -> None:
        self._client = client
        self._tasks = tasks
        self._schedulers = schedulers
        self._consumers = ClaimConsumers(informers, groups=True)
        self._groups = informers.informer(PodGroup)
        self._told: dict[str, tuple[str, str]] = {}  # group uid → reason and message written last
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._groups.add_handler(self._on_groups)
        informers.informer(Pod).add_handler(self._on_pods)

    def waits(self, pod: Pod, why: Unschedulable) -> None:
        """Write a False condition with the reason why a pod's group waits, unless enough of its pods have nodes."""
        group = self._consumers.group_of(pod)
        if group is None or is_initially_scheduled(group):
            return
        if group.spec.schedulingPolicy.gang is None and self._bound(group):
            return
        text = wording.group_waits(why) if why.group is not None else wording.unschedulable(why)
        self._tell(group, "False", SCHEDULER_ERROR if is_wrong(why) else UNSCHEDULABLE, text)

    def failed(self, group: PodGroup, error: Exception) -> None:
        """Write a False condition that the placement of a group could not be written."""
        if not is_initially_scheduled(group):
            self._tell(group, "False", SCHEDULER_ERROR, str(error))

    def _on_groups(self, deltas: Deltas[PodGroup]) -> None:
        """Check new and changed groups, and forget deleted ones."""
        for old, new in deltas:
            if new is not None:
                self._look_at({(new.metadata.namespace, new.metadata.name)})
            elif old is not None:
                self._told.pop(old.metadata.uid, None)

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        """Check the groups of pods that were just bound."""
        names: set[GroupKey] = set()
        for old, new in deltas:
            name = podclaims.group_name(new) if new is not None and new.spec.nodeName else ""
            if new is not None and name and (old is None or not old.spec.nodeName):
                names.add((new.metadata.namespace, name))
        if names:
            self._look_at(names)

    def _look_at(self, names: Collection[GroupKey]) -> None:
        """Write a True condition for those groups that now have enough bound pods."""
        for key in names:
            group = self._groups.get(*key)
            if group is not None and not is_initially_scheduled(group) and self._bound(group) >= min_count(group):
                self._tell(group, "True", "Scheduled", "")

    def _bound(self, group: PodGroup) -> int:
        """Return the number of the group's pods that have a node and use one of this scheduler's profiles."""
        pods = self._consumers.members(group.metadata.namespace, group.metadata.name)
        return sum(bool(pod.spec.nodeName) and pod.spec.schedulerName in self._schedulers for pod in pods)

    def _tell(self, group: PodGroup, status: str, reason: str, message: str) -> None:
        """Write a condition in the background, unless reason and message are unchanged."""
        uid = group.metadata.uid
        if self._told.get(uid) == (reason, message):
            return
        self._told[uid] = reason, message
        told = Condition(timestamp(time.time()), message, 0, reason, status, INITIALLY_SCHEDULED)
        task = self._writing[uid] = self._tasks.start(self._write(group, told, self._writing.get(uid)))
        task.add_done_callback(lambda done: self._writing.get(uid) is done and self._writing.pop(uid))

    async def _write(self, group: PodGroup, told: Condition, earlier: asyncio.Task[None] | None) -> None:
        """Write a condition after the earlier write to the same group has ended."""
        if earlier is not None:
            await asyncio.wait([earlier])
        try:
            await change_status(self._client, group, lambda group: _with_condition(group, told))
        except NotFound:
            return
        except ApiError as error:
            self._told.pop(group.metadata.uid, None)
            log.info("could not write the condition of podgroup %s: %s", group.metadata.name, error)


def is_initially_scheduled(group: PodGroup) -> bool:
    """Whether the PodGroupInitiallyScheduled condition is True."""
    return any(one.type == INITIALLY_SCHEDULED and one.status == "True" for one in group.status.conditions)


def _with_condition(group: PodGroup, told: Condition) -> PodGroupStatus:
    return group.status if is_initially_scheduled(group) else with_conditions(group.status, told)
