"""Evictions and PodDisruptionBudgets: an eviction uses one disruption of its pod's budget, or is denied for now.

The budget is updated in a separate commit, on condition that it is unchanged since it was read, so two evictions
cannot use the same disruption. Pods that have finished or not started need no budget. The disruption controller
computes how many disruptions a budget allows.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec.structs import replace

from dray.api.disruption import budgets_of
from dray.api.errors import InternalError, TooManyRequests
from dray.api.podclaims import is_finished
from dray.api.resources import BY_TYPE
from dray.api.types.core import Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.apiserver.read.storage import Storage, written
from dray.apiserver.write.identity import now
from dray.store import KeyVersion, RevisionConflict

_BUDGETS = BY_TYPE[PodDisruptionBudget]
_ATTEMPTS = 8


class Budgets:
    """The server's PodDisruptionBudgets, checked by evictions."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def grant(self, version: KeyVersion, dry_run: bool, awaited: bool) -> None:
        """Charge the budget of a pod for its eviction.

        Raises TooManyRequests if the budget allows no disruption, InternalError if several budgets select the pod. A
        dry run only checks.
        """
        pod = cast(Pod, version.object)
        if is_finished(pod) or pod.status.phase == "Pending" or pod.metadata.deletionTimestamp is not None:
            return
        for _ in range(_ATTEMPTS):
            found = self._budgets_of(pod)
            if not found:
                return
            if len(found) > 1:
                raise InternalError(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
                )
            budget = found[0]
            if _need_not_wait(budget, pod):
                return
            charged = _charged(budget, pod)
            if dry_run:
                return
            try:
                await self._write(budget, charged, awaited)
                return
            except RevisionConflict:
                continue
        raise TooManyRequests("Cannot evict pod: its disruption budget changes all the time.")

    def _budgets_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets whose selector matches a pod."""
        budgets = cast("list[PodDisruptionBudget]", list(self._storage.list(_BUDGETS, pod.metadata.namespace)))
        return [*budgets_of(pod, budgets)]

    async def _write(self, budget: PodDisruptionBudget, charged: PodDisruptionBudget, awaited: bool) -> None:
        """Store a charged budget. Raises RevisionConflict if the budget has changed since it was read."""
        meta = budget.metadata
        key = _BUDGETS.key(meta.namespace, meta.name)
        await self._storage.cache.commit([written(key, charged, expected=int(meta.resourceVersion))], awaited=awaited)


def _is_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def _need_not_wait(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether a pod that is not ready may be evicted without charging its budget."""
    if _is_ready(pod):
        return False
    if budget.spec.unhealthyPodEvictionPolicy == "AlwaysAllow":
        return True
    return budget.status.currentHealthy >= budget.status.desiredHealthy > 0


def _charged(budget: PodDisruptionBudget, pod: Pod) -> PodDisruptionBudget:
    """Return the budget with one disruption less and the pod in disruptedPods.

    Raises TooManyRequests if none is left, or if the budget's status does not reflect its spec yet.
    """
    status: Any = budget.status
    name = budget.metadata.name
    if status.observedGeneration < budget.metadata.generation:
        raise _refusal(name, f"The disruption budget {name} is still being processed by the server.")
    if status.disruptionsAllowed <= 0:
        text = f"The disruption budget {name} needs {status.desiredHealthy} healthy pods and has {status.currentHealthy} currently"
        raise _refusal(name, text)
    disrupted = {**status.disruptedPods, pod.metadata.name: now()}
    changed = replace(status, disruptionsAllowed=status.disruptionsAllowed - 1, disruptedPods=disrupted)
    return replace(budget, status=changed, metadata=replace(budget.metadata, resourceVersion=""))


def _refusal(budget: str, text: str) -> TooManyRequests:
    cause = {"reason": "DisruptionBudget", "message": text}
    return TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", causes=[cause])
