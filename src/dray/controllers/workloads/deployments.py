"""Deployments: keeps one ReplicaSet for each version of the template; the newest grows while the others shrink.

Reads informers' copies, creates and resizes ReplicaSets, writes the status. `rollout` decides the sizes, `revisions`
which ReplicaSet belongs to which template, and `progress` the status.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from dray.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from dray.api.podclaims import is_finished
from dray.api.selectors import label_selector
from dray.api.types.apps import Deployment, DeploymentStatus, ReplicaSet
from dray.api.types.core import Pod
from dray.client import Tree
from dray.controllers.context import ControllerContext
from dray.controllers.workloads import progress, revisions, rollout
from dray.controllers.workloads.adoption import Adoption, controlled, controller_of, index_by_controller
from dray.controllers.workloads.loop import WorkloadLoop
from dray.controllers.workloads.podcontrol import namespace_ends
from dray.controllers.workloads.pods import is_deleting
from dray.controllers.workloads.progress import DeploymentConditions
from dray.controllers.workloads.revisions import REVISION, Sets
from dray.controllers.workloads.rollout import Resize, size, wanted
from dray.controllers.workloads.status import write_status

CREATE_ERROR = "ReplicaSetCreateError"


class _Found(NamedTuple):
    """The ReplicaSets, and the conditions for the Deployment's status."""

    sets: Sets
    conditions: DeploymentConditions


class DeploymentController:
    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.clock
        self._loop = WorkloadLoop(context, Deployment, "deployment", self._reconcile)
        self.run = self._loop.run
        self._client = self._loop.client
        self._loop.follow(ReplicaSet)
        self._pods = context.informers.informer(Pod)
        index_by_controller(self._pods)
        sets = context.informers.informer(ReplicaSet)
        self._adoption = Adoption(self._client, ReplicaSet, sets, self._loop.writes)

    async def _reconcile(self, deployment: Deployment) -> float | None:
        selector = label_selector(deployment.spec.selector)
        if selector.everything:
            text = "This deployment is selecting all pods. A non-empty selector is required."
            self._loop.recorder.warning(deployment, "SelectingAll", text)
            status = replace(deployment.status, observedGeneration=deployment.metadata.generation)
            await self._write(deployment, status, Sets(None, ()))
            return None
        sets = revisions.sort_sets(deployment, await self._adoption.claim(deployment, selector))
        now = self._clock.time()
        if is_deleting(deployment):
            status = progress.counted(deployment, sets, deployment.status.conditions, now)
        elif deployment.spec.paused or rollout.is_scaled(deployment, sets):
            status = await self._scale(deployment, sets, now)
        elif deployment.spec.strategy.type == rollout.RECREATE:
            status = await self._recreate(deployment, sets, now)
        else:
            status = await self._roll(deployment, sets, now)
        return progress.until_deadline(deployment, status, now)

    # -- the three ways to proceed

    async def _scale(self, deployment: Deployment, sets: Sets, now: float) -> DeploymentStatus:
        conditions = progress.pause_conditions(deployment, deployment.status.conditions, now)
        if sets.new is not None:
            sets, conditions = await self._keep_new(deployment, sets, sets.new, conditions)
        sets = await self._resize(deployment, sets, rollout.scaling_step(deployment, sets))
        if deployment.spec.paused:
            await self._clean_up(deployment, sets)
        status = progress.counted(deployment, sets, conditions, now)
        return await self._write(deployment, status, sets)

    async def _roll(self, deployment: Deployment, sets: Sets, now: float) -> DeploymentStatus:
        found = await self._with_new(deployment, sets)
        assert found.sets.new is not None
        steps = rollout.rolling_step(deployment, found.sets.new, found.sets.old)
        sets = await self._resize(deployment, found.sets, steps)
        return await self._finish(deployment, sets, found.conditions, now)

    async def _recreate(self, deployment: Deployment, sets: Sets, now: float) -> DeploymentStatus:
        conditions = progress.pause_conditions(deployment, deployment.status.conditions, now)
        if running := rollout.active(sets.old):
            sets = await self._resize(deployment, sets, [Resize(one, 0) for one in running])
        elif not any(map(self._has_pods, sets.old)):
            sets, conditions = await self._with_new(deployment, sets)
            assert sets.new is not None
            sets = await self._resize(deployment, sets, [Resize(sets.new, wanted(deployment))])
        return await self._finish(deployment, sets, conditions, now)

    def _has_pods(self, replica_set: ReplicaSet) -> bool:
        """Whether the ReplicaSet still has running pods, including terminating ones."""
        if replica_set.status.replicas:
            return True
        return any(not is_finished(pod) for pod in controlled(self._pods, replica_set))

    async def _finish(
        self, deployment: Deployment, sets: Sets, conditions: DeploymentConditions, now: float
    ) -> DeploymentStatus:
        status = progress.rollout_status(deployment, sets, conditions, now)
        if progress.is_complete(deployment, status):
            await self._clean_up(deployment, sets)
        return await self._write(deployment, status, sets)

    # -- the ReplicaSet of the current template

    async def _with_new(self, deployment: Deployment, sets: Sets) -> _Found:
        conditions = progress.pause_conditions(deployment, deployment.status.conditions, self._clock.time())
        if sets.new is not None:
            return await self._keep_new(deployment, sets, sets.new, conditions)
        return await self._create_new(deployment, sets, conditions)

    async def _keep_new(
        self, deployment: Deployment, sets: Sets, new: ReplicaSet, conditions: DeploymentConditions
    ) -> _Found:
        """Update the annotations and minReadySeconds of the current template's ReplicaSet from the Deployment.

        Returns the ReplicaSets and the conditions afterwards.
        """
        revision = revisions.next_revision(sets.old)
        annotations = revisions.inherited_annotations(deployment, new, revision)
        changed = {k: v for k, v in annotations.items() if new.metadata.annotations.get(k) != v}
        patch: Tree = {"metadata": {"annotations": changed}} if changed else {}
        if new.spec.minReadySeconds != deployment.spec.minReadySeconds:
            patch["spec"] = {"minReadySeconds": deployment.spec.minReadySeconds}
        if patch:
            new = await self._patch(deployment, new, patch)
        if progress.has_deadline(deployment) and progress.find(conditions, progress.PROGRESSING) is None:
            text = f'Found new replica set "{new.metadata.name}"'
            conditions = self._progressing(conditions, progress.FOUND_NEW_SET, text)
        return _Found(Sets(new, sets.old), conditions)

    async def _create_new(self, deployment: Deployment, sets: Sets, conditions: DeploymentConditions) -> _Found:
        count = rollout.new_size(deployment, 0, rollout.total(sets.old))
        annotations = revisions.inherited_annotations(deployment, None, revisions.next_revision(sets.old))
        annotations |= revisions.size_annotations(wanted(deployment), rollout.max_replicas(deployment))
        tree = revisions.set_tree(deployment, count, annotations)
        name = revisions.set_name(deployment)
        try:
            new = await self._client.create(ReplicaSet, tree, namespace=deployment.metadata.namespace)
        except AlreadyExists:
            return _Found(Sets(await self._existing(deployment, name), sets.old), conditions)
        except ApiError as error:
            await self._not_created(deployment, name, error)
            raise
        self._loop.writes.wrote(deployment, new)
        if count:
            self._note_size(deployment, name, 0, count)
        if progress.has_deadline(deployment):
            conditions = self._progressing(conditions, progress.NEW_SET_CREATED, f'Created new replica set "{name}"')
        return _Found(Sets(new, sets.old), conditions)

    async def _existing(self, deployment: Deployment, name: str) -> ReplicaSet:
        """Return the ReplicaSet with this name if it is the Deployment's and has the current template.

        Otherwise count a name collision, so that another hash is tried, and raise `Conflict`.
        """
        there = await self._client.get(ReplicaSet, name, deployment.metadata.namespace)
        owner = controller_of(there.metadata)
        ours = owner is not None and owner.uid == deployment.metadata.uid
        if ours and revisions.same_template(there.spec.template, deployment.spec.template):
            self._loop.writes.wrote(deployment, there)
            return there
        collisions = (deployment.status.collisionCount or 0) + 1
        await self._write(deployment, replace(deployment.status, collisionCount=collisions), Sets(None, ()))
        raise Conflict(f"the name {name} is taken by another ReplicaSet")

    async def _not_created(self, deployment: Deployment, name: str, error: ApiError) -> None:
        if namespace_ends(error):
            return
        text = f'Failed to create new replica set "{name}": {error.message}'
        self._loop.recorder.warning(deployment, CREATE_ERROR, text)
        if progress.has_deadline(deployment):
            conditions = deployment.status.conditions
            conditions = self._progressing(conditions, CREATE_ERROR, text, status="False")
            await self._write(deployment, replace(deployment.status, conditions=conditions), Sets(None, ()))

    def _progressing(
        self, conditions: DeploymentConditions, reason: str, text: str, status: str = "True"
    ) -> DeploymentConditions:
        now = self._clock.time()
        return progress.with_condition(conditions, now, progress.PROGRESSING, status, reason, text)

    # -- writing

    async def _resize(self, deployment: Deployment, sets: Sets, steps: Iterable[Resize]) -> Sets:
        """Resize ReplicaSets. Returns the ReplicaSets as they are afterwards.

        Each step is a ReplicaSet and its new size. ReplicaSets that need no change are not written.
        """
        expected = revisions.size_annotations(wanted(deployment), rollout.max_replicas(deployment))
        written: dict[str, ReplicaSet] = {}
        for one, replicas in steps:
            patch: Tree = {}
            if expected.items() - one.metadata.annotations.items():
                patch["metadata"] = {"annotations": dict(expected)}
            if replicas != size(one):
                patch["spec"] = {"replicas": replicas}
                self._note_size(deployment, one.metadata.name, size(one), replicas)
            if patch:
                written[one.metadata.name] = await self._patch(deployment, one, patch)
        new = sets.new and written.get(sets.new.metadata.name, sets.new)
        return Sets(new, [written.get(one.metadata.name, one) for one in sets.old])

    def _note_size(self, deployment: Deployment, name: str, before: int, after: int) -> None:
        text = f"Scaled {'up' if after > before else 'down'} replica set {name} from {before} to {after}"
        self._loop.recorder.record(deployment, "ScalingReplicaSet", text)

    async def _patch(self, deployment: Deployment, replica_set: ReplicaSet, patch: Tree) -> ReplicaSet:
        """Patch a ReplicaSet by name and uid and return the result. Its status may have changed meanwhile."""
        meta = replica_set.metadata
        patch["metadata"] = {**patch.get("metadata", {}), "uid": meta.uid}
        patched = await self._client.patch(ReplicaSet, meta.name, patch, meta.namespace)
        self._loop.writes.wrote(deployment, patched)
        return patched

    async def _clean_up(self, deployment: Deployment, sets: Sets) -> None:
        for one in revisions.superfluous(deployment, sets.old):
            try:
                await self._client.delete(ReplicaSet, one.metadata.name, one.metadata.namespace, uid=one.metadata.uid)
            except NotFound:
                continue
            self._loop.writes.deleted(deployment, one)

    async def _write(self, deployment: Deployment, status: DeploymentStatus, sets: Sets) -> DeploymentStatus:
        """Write the status and the annotation with the Deployment's current revision. Returns the status."""
        annotations: Tree = {}
        if sets.new is not None:
            revision = sets.new.metadata.annotations.get(REVISION)
            if deployment.metadata.annotations.get(REVISION) != revision:
                annotations[REVISION] = revision
        await write_status(self._client, self._loop.writes, deployment, status, annotations)
        return status
