"""PodDisruptionBudgets as evictions and preemption read them, and the mark of a pod that leaves for another one.

Left out: how many disruptions a budget allows (the disruption controller), taking one from it (the API server).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api.selectors import label_selector
from dray.api.types.core import Pod
from dray.api.types.policy import PodDisruptionBudget

DISRUPTION_TARGET = "DisruptionTarget"  # the condition's type
PREEMPTION = "PreemptionByScheduler"  # its reason


def budgets_of(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> Iterator[PodDisruptionBudget]:
    """The budgets that a pod belongs to."""
    for budget in budgets:
        selector = label_selector(budget.spec.selector)
        if budget.metadata.namespace == pod.metadata.namespace and selector.matches(pod.metadata.labels):
            yield budget


def is_preempted(pod: Pod) -> bool:
    """Whether a pod is being deleted because a scheduler preempted it."""
    if pod.metadata.deletionTimestamp is None:
        return False
    found = [condition for condition in pod.status.conditions if condition.type == DISRUPTION_TARGET]
    return any(condition.status == "True" and condition.reason == PREEMPTION for condition in found)
