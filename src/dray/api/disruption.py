"""Matching of PodDisruptionBudgets for evictions and preemption, and detection of preempted pods.

The disruption controller computes the number of disruptions that a budget allows; the API server subtracts evictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dray.api.selectors import label_selector
from dray.api.types.core import Pod
from dray.api.types.policy import PodDisruptionBudget

DISRUPTION_TARGET = "DisruptionTarget"  # condition type
PREEMPTION = "PreemptionByScheduler"  # reason of the condition


def budgets_of(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> Iterator[PodDisruptionBudget]:
    """Yield the budgets in the pod's namespace whose selector matches the pod's labels."""
    for budget in budgets:
        selector = label_selector(budget.spec.selector)
        if budget.metadata.namespace == pod.metadata.namespace and selector.matches(pod.metadata.labels):
            yield budget


def is_preempted(pod: Pod) -> bool:
    """Return whether a pod is being deleted because a scheduler preempted it.

    The reason is read from its condition DisruptionTarget.
    """
    if pod.metadata.deletionTimestamp is None:
        return False
    found = [condition for condition in pod.status.conditions if condition.type == DISRUPTION_TARGET]
    return any(condition.status == "True" and condition.reason == PREEMPTION for condition in found)
