"""The Workload and the PodGroup of a Job (feature gate WorkloadWithJob).

A new Job without a controller gets both, and its pods become members of the group. The Job's `spec.scheduling` is the
template of the group; without it the group has the basic policy, which schedules pods one by one. A Job with a
controller that names a template in an annotation gets a PodGroup from its controller's Workload. Jobs that had begun
before the gate was enabled stay as they are. Left out: deleting both, which garbage collection does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from dray.api.errors import AlreadyExists, ApiError, NotFound
from dray.api.types.batch import Job
from dray.api.types.core import Pod
from dray.api.types.meta import OwnerReference
from dray.api.types.scheduling import PodGroup, PodGroupTemplate, Workload
from dray.api.wire import Tree, tree_of
from dray.client import PatchKind
from dray.controllers.context import ControllerContext
from dray.controllers.ownership import controller_reference
from dray.controllers.workloads.adoption import controlled, controller_of
from dray.controllers.workloads.history import spelled_hash
from dray.controllers.workloads.jobstatus import SUSPENDED
from dray.controllers.workloads.loop import WorkloadLoop

TEMPLATE_ANNOTATION = "scheduling.k8s.io/group-template-name"
PARENT_ANNOTATION = "scheduling.k8s.io/parent-composite-podgroup"
_NAME_LIMIT = 253
_TEMPLATE_LIMIT = 63

G = TypeVar("G", Workload, PodGroup)


class JobGroups:
    """Creates Workloads and PodGroups for Jobs, and keeps the size of their gangs up to date."""

    def __init__(self, context: ControllerContext, loop: WorkloadLoop[Job]) -> None:
        self._loop, self._client = loop, loop.client
        self._workloads = context.informers.informer(Workload)
        self._groups = context.informers.informer(PodGroup)
        loop.follow(Workload)
        loop.follow(PodGroup)

    async def group_of(self, job: Job, pods: Sequence[Pod]) -> str:
        """Return the name of the PodGroup for new pods of a Job, or "". Creates the PodGroup if the Job is new.

        Raises ApiError if the group should exist but cannot be created yet; the pods wait for it.
        """
        if job.spec.template.spec.schedulingGroup is not None:
            return ""  # the Job's author has assigned a group
        is_new = _is_new(job, pods)
        parent = controller_of(job.metadata)
        if parent is not None:
            return await self._delegated(job, parent, is_new=is_new)
        workload = self._own(Workload, job)
        if workload is None:
            if not is_new:
                return ""
            workload = await self._create(job, Workload, workload_tree(job))
        group = self._own(PodGroup, job)
        if group is None:
            if not is_new or len(workload.spec.podGroupTemplates or ()) != 1:
                return ""
            group = await self._create(job, PodGroup, group_tree(job, workload))
        await self._resize(job, workload, group)
        return group.metadata.name

    def _own(self, type_: type[G], job: Job) -> G | None:
        """Return the only object of this type that the Job controls, or None if there is none or more than one."""
        informer: Any = self._workloads if type_ is Workload else self._groups
        found: Sequence[G] = controlled(informer, job)
        return found[0] if len(found) == 1 else None

    async def _create(self, job: Job, type_: type[G], tree: Tree) -> G:
        kind = type_.__name__
        try:
            made = await self._client.create(type_, tree)
        except AlreadyExists:  # made by a controller that was killed, or a foreign object of that name
            made = await self._client.get(type_, tree["metadata"]["name"], job.metadata.namespace)
            owner = controller_of(made.metadata)
            if owner is None or owner.uid != job.metadata.uid:
                raise
        except ApiError as error:
            self._loop.recorder.warning(job, f"Failed{kind}Create", f"Failed to create {kind} for Job: {error}")
            raise
        else:
            self._loop.recorder.record(
                job, f"{kind}Created", f"Created {kind} {made.metadata.name} for Job {job.metadata.name}"
            )
        self._loop.writes.wrote(job, made)
        return made

    async def _delegated(self, job: Job, parent: OwnerReference, *, is_new: bool) -> str:
        """Return the PodGroup name of a Job whose controller owns the Workload, or "". A new Job's group is created.

        "" applies if the Job does not name a template, or if its group is gone and the Job is not new. Raises
        NotFound if the Workload or its template does not exist.
        """
        wanted = job.metadata.annotations.get(TEMPLATE_ANNOTATION)
        if wanted is None:
            return ""
        group = self._own(PodGroup, job)
        if group is None:
            if not is_new:
                return ""
            workload = self._workload_of(job.metadata.namespace, parent)
            names = [one.name for one in workload.spec.podGroupTemplates or ()] if workload is not None else []
            if workload is None or wanted not in names:
                text = f'{parent.kind} {parent.name} has no Workload with the template "{wanted}"'
                self._loop.recorder.warning(job, "FailedPodGroupCreate", text)
                raise NotFound(text)
            group = await self._create(job, PodGroup, group_tree(job, workload, wanted))
        return group.metadata.name

    def _workload_of(self, namespace: str, parent: OwnerReference) -> Workload | None:
        group = parent.apiVersion.rpartition("/")[0]
        for workload in self._workloads.list(namespace):
            ref = workload.spec.controllerRef
            if ref is not None and (ref.apiGroup, ref.kind, ref.name) == (group, parent.kind, parent.name):
                return workload
        return None

    async def _resize(self, job: Job, workload: Workload, group: PodGroup) -> None:
        """Write a changed gang size of the Job to its Workload and PodGroup.

        Nothing happens if the Job has no gang or the size is right.
        """
        gang = _policy(job).get("gang")
        if gang is None:
            return
        size = gang["minCount"]
        template = next(iter(workload.spec.podGroupTemplates or ()), None)
        held = template.schedulingPolicy.gang if template is not None else None
        if held is not None and held.minCount != size:
            await self._set_size(job, workload, "/spec/podGroupTemplates/0", size)
        own = group.spec.schedulingPolicy.gang
        if own is not None and own.minCount != size:
            await self._set_size(job, group, "/spec", size)

    async def _set_size(self, job: Job, of: Workload | PodGroup, place: str, size: int) -> None:
        patch = [{"op": "replace", "path": f"{place}/schedulingPolicy/gang/minCount", "value": size}]
        meta = of.metadata
        changed = await self._client.patch(type(of), meta.name, patch, meta.namespace, kind=PatchKind.JSON)
        self._loop.writes.wrote(job, changed)


def workload_tree(job: Job) -> Tree:
    """Return the Workload of a Job, with one group template for all of its pods."""
    meta = job.metadata
    return {
        "metadata": {
            "name": _name(meta.name, meta.uid),
            "namespace": meta.namespace,
            "ownerReferences": [controller_reference(job)],
        },
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": meta.name},
            "podGroupTemplates": [_template(job)],
        },
    }


def group_tree(job: Job, workload: Workload, delegated: str = "") -> Tree:
    """Return the PodGroup of a Job, from its own Workload's only template or the template named `delegated`.

    `delegated` is "" for the Job's own Workload.
    """
    templates = workload.spec.podGroupTemplates or ()
    template = next(one for one in templates if delegated in ("", one.name))
    owners = [controller_reference(job)]
    if not delegated:
        kept = OwnerReference(
            apiVersion=workload.apiVersion, kind="Workload", name=workload.metadata.name, uid=workload.metadata.uid
        )
        owners.append(tree_of(kept))
    base = f"{workload.metadata.name}-{template.name}"
    metadata = {
        "name": _name(base, f"{base}/{job.metadata.uid}" if delegated else base),
        "namespace": job.metadata.namespace,
        "ownerReferences": owners,
    }
    return {"metadata": metadata, "spec": _group_spec(job, workload, template, is_delegated=bool(delegated))}


def _group_spec(job: Job, workload: Workload, template: PodGroupTemplate, *, is_delegated: bool) -> Tree:
    spec: Tree = tree_of(template)
    spec.pop("name")
    spec["workloadRef"] = {"workloadName": workload.metadata.name, "templateName": template.name}
    parent = job.metadata.annotations.get(PARENT_ANNOTATION)
    if is_delegated and parent:
        spec["parentCompositePodGroupName"] = parent
    return {name: value for name, value in spec.items() if value is not None}


def _template(job: Job) -> Tree:
    """Return the group template for a Job's pods with their priority class, as group and pods must not differ."""
    suffix = "-pgt-0"
    named = job.metadata.name[: _TEMPLATE_LIMIT - len(suffix)].rstrip("-.").replace(".", "-")
    said = tree_of(job.spec.scheduling) if job.spec.scheduling is not None else {}
    template: Tree = {**said, "name": named + suffix, "schedulingPolicy": _policy(job)}
    if job.spec.template.spec.priorityClassName:
        template["priorityClassName"] = job.spec.template.spec.priorityClassName
    return template


def _policy(job: Job) -> Tree:
    """Return the scheduling policy of a Job's pods: one by one, or a gang of minCount (default: parallelism)."""
    said = job.spec.scheduling.schedulingPolicy if job.spec.scheduling is not None else None
    if said is None or said.gang is None:
        return {"basic": {}}
    return {"gang": {"minCount": said.gang.minCount or max(1, job.spec.parallelism or 0)}}


def _is_new(job: Job, pods: Sequence[Pod]) -> bool:
    """Whether a Job shows no sign of having had pods or having been suspended."""
    status = job.status
    has_begun = pods or status.startTime is not None or status.succeeded or status.failed
    return not has_begun and not any(one.type == SUSPENDED for one in status.conditions)


def _name(base: str, hashed: str) -> str:
    suffix = spelled_hash(hashed.encode())
    return f"{base[: _NAME_LIMIT - len(suffix) - 1].rstrip('-.')}-{suffix}"
