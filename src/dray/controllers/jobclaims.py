"""Releases claims that were reserved for finished Jobs (KEP-5194).

A claim with `spec.reservedFor` lists its workload instead of pods, and the workload's controller must remove that
reference when it no longer needs the devices. A Job does not need them after it has finished. Left out: deallocating
(`claims`), and references to deleted Jobs, which the claim controller removes.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from dray.api.errors import NotFound
from dray.api.types.batch import Job
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference
from dray.client import Deltas, Key, key_of
from dray.controllers.context import ControllerContext
from dray.controllers.references import BY_CONSUMER, consumers_named
from dray.controllers.workloads.jobstatus import finish

WORKERS = 4


class JobClaims:
    """Removes references to finished Jobs from claims."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._controller = context.controller("job_claims", self._reconcile, WORKERS)
        self.run = self._controller.run
        self._jobs = context.informers.informer(Job)
        self._claims = context.informers.informer(ResourceClaim)
        self._claims.add_index(BY_CONSUMER, consumers_named)
        self._jobs.add_handler(self._on_jobs)
        self._claims.add_handler(self._on_claims)

    def _on_jobs(self, deltas: Deltas[Job]) -> None:
        for _, new in deltas:
            if new is not None and finish(new) is not None:
                for claim in self._claims.by_index(BY_CONSUMER, new.metadata.uid):
                    self._controller.queue.add(key_of(claim))

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        for _, new in deltas:
            if new is not None and any(map(_is_job, new.status.reservedFor)):
                self._controller.queue.add(key_of(new))

    async def _reconcile(self, key: Key) -> float | None:
        claim = self._claims.get(*key)
        if claim is None:
            return None
        kept = [r for r in claim.status.reservedFor if not self._is_done(claim, r)]
        if len(kept) < len(claim.status.reservedFor):
            with suppress(NotFound):  # deleted meanwhile
                await self._client.patch_status(claim, replace(claim.status, reservedFor=tuple(kept)))
        return None

    def _is_done(self, claim: ResourceClaim, reference: ResourceClaimConsumerReference) -> bool:
        job = self._jobs.get(claim.metadata.namespace, reference.name) if _is_job(reference) else None
        return job is not None and job.metadata.uid == reference.uid and finish(job) is not None


def _is_job(reference: ResourceClaimConsumerReference) -> bool:
    return (reference.apiGroup, reference.resource) == ("batch", "jobs")
