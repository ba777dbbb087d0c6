"""PodDisruptionBudgets: computes how many pods may be disrupted now, which the API server checks for evictions.

The expected number of pods is what their owners want in total; a budget with an absolute minAvailable counts the pods
that it selects. A pod whose eviction was granted but which still exists counts as disrupted for two minutes. The
first part is pure. Left out: granting evictions, which the API server does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from dray.api.podclaims import is_finished
from dray.api.selectors import label_selector
from dray.api.times import parse_timestamp, timestamp
from dray.api.types.apps import Deployment, ReplicaSet, StatefulSet
from dray.api.types.core import Pod, ReplicationController
from dray.api.types.meta import Condition
from dray.api.types.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from dray.client import Deltas, Key, key_of
from dray.client.status import with_conditions
from dray.controllers.context import ControllerContext
from dray.controllers.workloads.adoption import controller_of
from dray.controllers.workloads.pods import is_deleting, is_ready
from dray.controllers.workloads.rollout import share

DISRUPTED_SECONDS = 120.0
WORKERS = 4
BY_NAMESPACE = "namespace"


class Counts(NamedTuple):
    """Expected, desired and healthy number of a budget's pods.

    `desired` is the number that must stay healthy.
    """

    expected: int
    desired: int
    healthy: int

    @property
    def allowed(self) -> int:
        return max(0, self.healthy - self.desired) if self.expected > 0 else 0


class NotScalable(Exception):
    """The owner of a pod does not say how many pods it wants."""


def counted(
    budget: PodDisruptionBudget,
    pods: Sequence[Pod],
    wanted: Callable[[Pod], tuple[str, int] | None],
    disturbed: Mapping[str, Any],
) -> Counts:
    """Return the counts of a budget. `disturbed` pods do not count as healthy.

    `wanted` returns the uid of a pod's owner and its number of wanted pods, or None. Raises `NotScalable` for None.
    """
    spec = budget.spec
    healthy = sum(is_ready(pod) and not is_deleting(pod) and pod.metadata.name not in disturbed for pod in pods)
    if spec.minAvailable is not None and isinstance(spec.minAvailable, int):
        return Counts(len(pods), spec.minAvailable, healthy)
    expected = _expected(pods, wanted)
    if spec.minAvailable is not None:
        return Counts(expected, share(spec.minAvailable, expected, up=True), healthy)
    return Counts(expected, max(0, expected - share(spec.maxUnavailable, expected, up=True)), healthy)


def _expected(pods: Sequence[Pod], wanted: Callable[[Pod], tuple[str, int] | None]) -> int:
    owners: dict[str, int] = {}
    for pod in pods:
        found = wanted(pod)
        if found is None:
            raise NotScalable(f"found no controllers for pod {pod.metadata.name!r}")
        owners[found[0]] = found[1]
    return sum(owners.values())


def still_disturbed(budget: PodDisruptionBudget, pods: Iterable[Pod], now: float) -> dict[str, Any]:
    """Return the pods (by name, with the time) whose eviction was granted recently and that still exist.

    Pods that are being deleted are left out. `now` is in seconds since 1970.
    """
    there = {pod.metadata.name for pod in pods if not is_deleting(pod)}
    granted = budget.status.disruptedPods
    return {name: when for name, when in granted.items() if name in there and _lately(when, now)}


def _lately(when: str | None, now: float) -> bool:
    return when is not None and now < parse_timestamp(when) + DISRUPTED_SECONDS


def status_of(budget: PodDisruptionBudget, counts: Counts, disturbed: dict[str, Any], now: float) -> Any:
    allowed = counts.allowed
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return _with_condition(
        replace(
            budget.status,
            observedGeneration=budget.metadata.generation,
            expectedPods=counts.expected,
            desiredHealthy=counts.desired,
            currentHealthy=counts.healthy,
            disruptionsAllowed=allowed,
            disruptedPods=disturbed,
        ),
        budget,
        "True" if allowed else "False",
        reason,
        "",
        now,
    )


def failed_status(budget: PodDisruptionBudget, message: str, now: float) -> PodDisruptionBudgetStatus:
    """Return the status of a budget that cannot be computed: no disruption is allowed.

    `message` says why. `now` is in seconds since 1970.
    """
    status = replace(budget.status, disruptionsAllowed=0, observedGeneration=budget.metadata.generation)
    return _with_condition(status, budget, "False", "SyncFailed", message, now)


def _with_condition(
    status: PodDisruptionBudgetStatus, budget: PodDisruptionBudget, held: str, reason: str, message: str, now: float
) -> PodDisruptionBudgetStatus:
    condition = Condition(
        type="DisruptionAllowed",
        status=held,
        reason=reason,
        message=message,
        lastTransitionTime=timestamp(now),
        observedGeneration=budget.metadata.generation,
    )
    return with_conditions(status, condition)


class DisruptionController:
    """Keeps the status of PodDisruptionBudgets up to date."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client_for("disruption-controller")
        self._clock = context.clock
        informers = context.informers
        self._budgets = informers.informer(PodDisruptionBudget)
        self._budgets.add_index(BY_NAMESPACE, lambda budget: [budget.metadata.namespace])
        self._pods = informers.informer(Pod)
        self._pods.add_index(BY_NAMESPACE, lambda pod: [pod.metadata.namespace])
        self._owners: dict[str, Any] = {
            type_.__name__: informers.informer(type_)
            for type_ in (ReplicaSet, ReplicationController, StatefulSet, Deployment)
        }
        self._controller = context.controller("disruption", self._reconcile, WORKERS)
        self.run = self._controller.run
        self._budgets.add_handler(self._on_budgets)
        self._pods.add_handler(self._on_dependents)
        for informer in self._owners.values():
            informer.add_handler(self._on_dependents)

    def _on_budgets(self, deltas: Deltas[PodDisruptionBudget]) -> None:
        for delta in deltas:
            self._controller.queue.add(key_of(delta.object))

    def _on_dependents(self, deltas: Deltas[Any]) -> None:
        """Queue all budgets in the namespaces of the changed objects; a namespace has few budgets."""
        if not len(self._budgets):
            return
        for namespace in {delta.object.metadata.namespace for delta in deltas}:
            for budget in self._budgets.by_index(BY_NAMESPACE, namespace):
                self._controller.queue.add(key_of(budget))

    async def _reconcile(self, key: Key) -> float | None:
        budget = self._budgets.get(*key)
        if budget is None:
            return None
        now, selector = self._clock.time(), label_selector(budget.spec.selector)
        found = self._pods.by_index(BY_NAMESPACE, budget.metadata.namespace)
        pods = [pod for pod in found if selector.matches(pod.metadata.labels) and not is_finished(pod)]
        disturbed = still_disturbed(budget, pods, now)
        try:
            counts = counted(budget, pods, self._wanted, disturbed)
        except NotScalable as error:
            status = failed_status(budget, str(error), now)
        else:
            status = status_of(budget, counts, disturbed, now)
        if status != budget.status:
            await self._client.patch_status(budget, status)
        return DISRUPTED_SECONDS if disturbed else None

    def _wanted(self, pod: Pod) -> tuple[str, int] | None:
        """Return uid and replica count of a pod's topmost owner, such as its Deployment, or None without owner.

        The count is 1 if the owner does not set replicas. None also means that the owner is unknown.
        """
        reference = controller_of(pod.metadata)
        owner: Any = None
        while reference is not None and reference.kind in self._owners:
            found = self._owners[reference.kind].get(pod.metadata.namespace, reference.name)
            if found is None or found.metadata.uid != reference.uid:
                break
            owner, reference = found, controller_of(found.metadata)
        if owner is None:
            return None
        replicas = owner.spec.replicas
        return owner.metadata.uid, 1 if replicas is None else replicas
