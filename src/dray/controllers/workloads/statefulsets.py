"""StatefulSets: pods with fixed names, numbers and volumes of their own.

Reads informers' copies, creates claims and pods, deletes pods, writes revisions and the status; `stateful` decides
the next step. Left out: providing the volumes.
"""

from __future__ import annotations

from contextlib import suppress

from dray.api.errors import AlreadyExists, ApiError, NotFound
from dray.api.selectors import label_selector
from dray.api.types.apps import ControllerRevision, StatefulSet
from dray.api.types.core import PersistentVolumeClaim, Pod
from dray.background.thread import in_thread_if_large
from dray.background.turns import WRITE, take
from dray.controllers.context import ControllerContext
from dray.controllers.workloads import stateful
from dray.controllers.workloads.adoption import Adoption
from dray.controllers.workloads.history import RevisionHistory, TemplateRevisions, template_of
from dray.controllers.workloads.loop import WorkloadLoop
from dray.controllers.workloads.podcontrol import PodControl, namespace_ends
from dray.controllers.workloads.pods import is_deleting, next_available
from dray.controllers.workloads.stateful import Revisions, StatefulPlan, StatefulView
from dray.controllers.workloads.status import write_status


class StatefulSetController:
    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.clock
        self._loop = WorkloadLoop(context, StatefulSet, "statefulset", self._reconcile)
        self.run = self._loop.run
        self._client = self._loop.client
        self._loop.follow(Pod)
        self._loop.follow(ControllerRevision)
        pods = context.informers.informer(Pod)
        self._claims = context.informers.informer(PersistentVolumeClaim)
        revisions = context.informers.informer(ControllerRevision)
        self._history = RevisionHistory(self._client, revisions, self._loop.writes)
        self._adoption = Adoption(self._client, Pod, pods, self._loop.writes)
        self._control = PodControl(self._client, self._loop.recorder, self._loop.writes)

    async def _reconcile(self, stateful_set: StatefulSet) -> float | None:
        if is_deleting(stateful_set):
            return None
        pods = await self._adoption.claim(stateful_set, label_selector(stateful_set.spec.selector))
        numbered = await in_thread_if_large(len(pods), stateful.numbered, stateful_set, pods)
        wanted = await self._history.record(stateful_set)
        view = StatefulView(stateful_set, numbered, _revisions(stateful_set, wanted), self._clock.time())
        size = max(len(pods), len(view.wanted))
        error = await self._carry_out(view, await in_thread_if_large(size, stateful.plan, view))
        status = await in_thread_if_large(size, stateful.status_of, view)
        await write_status(self._client, self._loop.writes, stateful_set, status)
        live = {status.currentRevision, status.updateRevision, *map(stateful.revision_of, pods)}
        await self._history.trim(stateful_set, wanted.older, live)
        if error is not None and not namespace_ends(error):
            raise error
        return next_available(pods, stateful_set.spec.minReadySeconds, view.now)

    async def _carry_out(self, view: StatefulView, plan: StatefulPlan) -> ApiError | None:
        stateful_set = view.stateful_set
        for ordinal, _ in plan.create:
            await self._make_claims(stateful_set, ordinal)
        created = await self._control.create(
            stateful_set,
            plan.create,
            lambda wish: stateful.identified_pod(stateful_set, *wish, template_of(wish[1])),
        )
        deleted = await self._control.delete(stateful_set, plan.delete)
        for name in stateful.surplus_claims(view):
            await self._give_back(stateful_set, name)
        error = created.error or deleted.error
        return None if isinstance(error, AlreadyExists) else error

    async def _make_claims(self, stateful_set: StatefulSet, ordinal: int) -> None:
        namespace = stateful_set.metadata.namespace
        for tree in stateful.claim_trees(stateful_set, ordinal):
            name = tree["metadata"]["name"]
            if self._claims.get(namespace, name) is not None:
                continue
            await take(WRITE)
            with suppress(AlreadyExists):
                await self._client.create(PersistentVolumeClaim, tree, namespace=namespace)
                text = f"create Claim {name} Pod {stateful_set.metadata.name}-{ordinal} in StatefulSet "
                self._loop.recorder.record(
                    stateful_set, "SuccessfulCreate", f"{text}{stateful_set.metadata.name} success"
                )

    async def _give_back(self, stateful_set: StatefulSet, name: str) -> None:
        namespace = stateful_set.metadata.namespace
        claim = self._claims.get(namespace, name)
        if claim is not None and not is_deleting(claim):
            with suppress(NotFound):
                await self._client.delete(PersistentVolumeClaim, name, namespace, uid=claim.metadata.uid)


def _revisions(stateful_set: StatefulSet, wanted: TemplateRevisions) -> Revisions:
    """Return the current and the update revision. If the status names none that exists, both are the latest."""
    name = stateful_set.status.currentRevision
    current = next((one for one in wanted.older if one.metadata.name == name), wanted.current)
    return Revisions(current, wanted.current)
