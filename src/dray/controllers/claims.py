"""Claims from templates, reservations of pods that are gone, and the end of claims that nobody uses.

Two kinds of keys: a pod, for which claims are made and recorded, and a claim, whose reservations are checked. Nothing
is remembered between runs: the name of a generated claim follows from its pod (`generated`), and what a claim needs is
decided from what is there (`upkeep`).
"""

from __future__ import annotations

import logging
from typing import Any, Literal, NamedTuple

from dray.api import podclaims
from dray.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from dray.api.types.core import Pod, PodResourceClaim
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.client import Client, Controller, Deltas, PatchKind, SharedInformers
from dray.client.events import EventRecorder
from dray.controllers import generated
from dray.controllers.metrics import (
    ALLOCATED_CLAIMS,
    CLAIM_CREATE_FAILURES,
    CLAIM_CREATES,
    CLAIMS,
)
from dray.controllers.upkeep import Upkeep, upkeep

log = logging.getLogger(__name__)

WORKERS = 16
BY_OWNER = "owner"
BY_CLAIM = "claim"
BY_TEMPLATE = "template"


class Key(NamedTuple):
    kind: Literal["pod", "claim"]
    namespace: str
    name: str


class ClaimController:
    """Keeps claims in step with the pods that use them."""

    def __init__(self, client: Client, informers: SharedInformers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._pods = informers.informer(Pod)
        self._claims = informers.informer(ResourceClaim)
        self._templates = informers.informer(ResourceClaimTemplate)
        self._controller: Controller[Key] = Controller("resource_claim", self._reconcile, workers=WORKERS)
        self._pods.add_index(BY_CLAIM, _claims_used)
        self._pods.add_index(BY_TEMPLATE, _templates_used)
        self._pods.add_handler(self._on_pods)
        self._claims.add_handler(self._on_claims)
        self._templates.add_handler(self._on_templates)

    async def run(self) -> None:
        await self._controller.run()

    # -- what makes us look

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            pod = new or old
            assert pod is not None
            if not pod.spec.resourceClaims:
                continue
            if new is not None and _pod_matters(old, new):
                self._add("pod", new.metadata.namespace, new.metadata.name)
            if new is None or podclaims.is_finished(new) or new.metadata.deletionTimestamp is not None:
                for claim in _claims_used(pod):
                    self._add("claim", *claim.split("/"))

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        for old, new in deltas:
            claim = new or old
            assert claim is not None
            where = claim.metadata.namespace, claim.metadata.name
            _count(old, -1)
            _count(new, +1)
            if new is not None and _claim_matters(old, new):
                self._add("claim", *where)
            if new is None or old is None:  # a pod may wait for it, or has lost it
                for pod in self._pods.by_index(BY_CLAIM, "/".join(where)):
                    self._add("pod", pod.metadata.namespace, pod.metadata.name)

    def _on_templates(self, deltas: Deltas[ResourceClaimTemplate]) -> None:
        for _, new in deltas:
            if new is not None:
                for pod in self._pods.by_index(BY_TEMPLATE, f"{new.metadata.namespace}/{new.metadata.name}"):
                    self._add("pod", pod.metadata.namespace, pod.metadata.name)

    def _add(self, kind: Literal["pod", "claim"], namespace: str, name: str) -> None:
        self._controller.queue.add(Key(kind, namespace, name))

    async def _reconcile(self, key: Key) -> float | None:
        if key.kind == "pod":
            pod = self._pods.get(key.namespace, key.name)
            if pod is not None:
                await self._pod(pod)
        else:
            claim = self._claims.get(key.namespace, key.name)
            if claim is not None:
                await self._claim(claim)
        return None

    # -- pods

    async def _pod(self, pod: Pod) -> None:
        if podclaims.is_finished(pod) or pod.metadata.deletionTimestamp is not None:
            return
        made: dict[str, str | None] = {}
        for entry in pod.spec.resourceClaims:
            if entry.resourceClaimTemplateName is not None:
                try:
                    name = await self._claim_for(pod, entry)
                except ApiError as error:
                    text = f"PodResourceClaim {entry.name}: {_create_problem(entry, error)}"
                    self._recorder.warning(pod, "FailedResourceClaimCreation", text)
                    raise
                if name is not None:
                    made[entry.name] = name
        if made:
            statuses = [{"name": entry, "resourceClaimName": name} for entry, name in made.items()]
            patch: dict[str, Any] = {
                "metadata": {"uid": pod.metadata.uid},
                "status": {"resourceClaimStatuses": statuses},
            }
            await self._client.patch(
                Pod, pod.metadata.name, patch, pod.metadata.namespace, kind=PatchKind.STRATEGIC, subresource="status"
            )
        if pod.spec.nodeName:
            await self._reserve_placed(pod)

    async def _claim_for(self, pod: Pod, entry: PodResourceClaim) -> str | None:
        """Make the claim of an entry unless it is there; the name, if the pod's status does not say it yet."""
        use = podclaims.use_of(pod, entry)
        if not use.needed:
            return None
        if use.claim is not None and self._claims.get(pod.metadata.namespace, use.claim) is not None:
            return None
        assert entry.resourceClaimTemplateName is not None
        template = await self._template(pod.metadata.namespace, entry.resourceClaimTemplateName)
        for attempt in range(generated.NAMES_TRIED):
            name = generated.claim_name(pod, entry.name, attempt)
            if await self._create(pod, entry.name, template, name):
                return name if name != use.claim else None
        raise Conflict(f"every name tried for the claim of entry {entry.name} is taken by another object")

    async def _create(self, pod: Pod, entry: str, template: ResourceClaimTemplate, name: str) -> bool:
        """Create a claim; True when it is there now and ours, also when it was there before."""
        CLAIM_CREATES.inc()
        try:
            await self._client.create(ResourceClaim, generated.claim_tree(pod, entry, template, name))
        except AlreadyExists:
            there = await self._client.get(ResourceClaim, name, pod.metadata.namespace)
            return podclaims.is_controlled_by(there, pod.metadata.uid)
        except ApiError:
            CLAIM_CREATE_FAILURES.inc()
            raise
        log.debug("created claim %s/%s for entry %s of pod %s", pod.metadata.namespace, name, entry, pod.metadata.name)
        return True

    async def _template(self, namespace: str, name: str) -> ResourceClaimTemplate:
        template = self._templates.get(namespace, name)
        return template or await self._client.get(ResourceClaimTemplate, name, namespace)

    async def _reserve_placed(self, pod: Pod) -> None:
        """A pod that got its node without the scheduler still needs its reservations, where that is possible."""
        for use in podclaims.uses_of(pod):
            claim = self._claims.get(pod.metadata.namespace, use.claim) if use.claim else None
            if claim is None or claim.status.allocation is None or podclaims.may_use(claim, pod):
                continue
            if use.generated and not podclaims.is_controlled_by(claim, pod.metadata.uid):
                continue
            reservations = [podclaims.reference_tree(r) for r in claim.status.reservedFor]
            patch = {
                "metadata": {"resourceVersion": claim.metadata.resourceVersion},
                "status": {"reservedFor": [*reservations, podclaims.pod_reference(pod)]},
            }
            await self._client.patch(
                ResourceClaim, claim.metadata.name, patch, claim.metadata.namespace, subresource="status"
            )

    # -- claims

    async def _claim(self, claim: ResourceClaim) -> None:
        gone = [
            r
            for r in claim.status.reservedFor
            if podclaims.is_pod(r) and not await self._still_uses(claim, r.name, r.uid)
        ]
        owner_gone = await self._owner_is_done(claim)
        await self._carry_out(claim, upkeep(claim, {r.uid for r in gone}, owner_gone))

    async def _still_uses(self, claim: ResourceClaim, name: str, uid: str) -> bool:
        pod = await self._current_pod(claim.metadata.namespace, name, uid)
        return pod is not None and not _will_never_run(pod)

    async def _owner_is_done(self, claim: ResourceClaim) -> bool:
        """Whether the pod that a claim was generated for is finished; one that is gone is the garbage collector's."""
        for ref in claim.metadata.ownerReferences:
            if ref.controller and ref.kind == "Pod":
                pod = await self._current_pod(claim.metadata.namespace, ref.name, ref.uid)
                return pod is None or podclaims.is_finished(pod)
        return False

    async def _current_pod(self, namespace: str, name: str, uid: str) -> Pod | None:
        """The pod of this uid; asks the server before it says that there is none, since the copy may lag behind."""
        pod = self._pods.get(namespace, name)
        if pod is not None and pod.metadata.uid == uid:
            return pod
        try:
            pod = await self._client.get(Pod, name, namespace)
        except NotFound:
            return None
        return pod if pod.metadata.uid == uid else None

    async def _carry_out(self, claim: ResourceClaim, todo: Upkeep) -> None:
        name, namespace = claim.metadata.name, claim.metadata.namespace
        if todo.status is not None:
            patch = {"metadata": {"resourceVersion": claim.metadata.resourceVersion}, "status": todo.status}
            claim = await self._client.patch(ResourceClaim, name, patch, namespace, subresource="status")
        if todo.finalizers is not None:
            patch = {"metadata": {"resourceVersion": claim.metadata.resourceVersion, "finalizers": todo.finalizers}}
            await self._client.patch(ResourceClaim, name, patch, namespace)
        if todo.delete and claim.metadata.deletionTimestamp is None:
            try:
                await self._client.delete(ResourceClaim, name, namespace, uid=claim.metadata.uid)
            except NotFound:
                return


def _will_never_run(pod: Pod) -> bool:
    """Finished, or deleted before it got a node."""
    return podclaims.is_finished(pod) or (pod.metadata.deletionTimestamp is not None and not pod.spec.nodeName)


def _pod_matters(old: Pod | None, new: Pod) -> bool:
    """Whether a change of a pod can mean work: it is new, lost a recorded claim, or got a node."""
    return (
        old is None
        or old.status.resourceClaimStatuses != new.status.resourceClaimStatuses
        or old.spec.nodeName != new.spec.nodeName
        or old.spec.resourceClaims is not new.spec.resourceClaims
    )


def _claim_matters(old: ResourceClaim | None, new: ResourceClaim) -> bool:
    """Whether a change of a claim can mean work: its reservations, or its end."""
    if new.status.reservedFor or new.metadata.deletionTimestamp is not None:
        return True
    return old is None or bool(old.status.reservedFor)


def _claims_used(pod: Pod) -> list[str]:
    """The claims of a pod by namespace and name; those not created yet are missing."""
    namespace = pod.metadata.namespace
    return [f"{namespace}/{use.claim}" for use in podclaims.uses_of(pod) if use.claim]


def _templates_used(pod: Pod) -> list[str]:
    return [
        f"{pod.metadata.namespace}/{entry.resourceClaimTemplateName}"
        for entry in pod.spec.resourceClaims
        if entry.resourceClaimTemplateName
    ]


def _create_problem(entry: PodResourceClaim, error: ApiError) -> str:
    template = entry.resourceClaimTemplateName
    if isinstance(error, NotFound):
        return f'resource claim template "{template}": {error.message}'
    return f"create resource claim: {error.message}"


def _count(claim: ResourceClaim | None, sign: int) -> None:
    if claim is not None:
        CLAIMS.inc(sign)
        if claim.status.allocation is not None:
            ALLOCATED_CLAIMS.inc(sign)
