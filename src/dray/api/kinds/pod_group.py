"""PodGroup: pods that are scheduled together."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, text
from dray.api.kind import GROUP_VERSIONS, SCHEDULING, STATUS, Resource
from dray.api.types import scheduling


def _policy(group: scheduling.PodGroup) -> str:
    policy = group.spec.schedulingPolicy
    return "Gang" if policy.gang is not None else "Basic" if policy.basic is not None else ""


def _state(group: scheduling.PodGroup) -> str:
    for condition in group.status.conditions:
        if condition.type == "PodGroupInitiallyScheduled":
            return "Scheduled" if condition.status == "True" else condition.reason or "Pending"
    return "Pending"


KIND = Resource(
    SCHEDULING,
    "podgroups",
    "PodGroup",
    scheduling.PodGroup,
    versions=GROUP_VERSIONS,
    stored="v1beta1",
    subresources=STATUS,
    gate="GenericWorkload",
    columns=(
        NAME,
        text("Policy", _policy, NONE),
        text("Workload", lambda group: group.spec.workloadRef and group.spec.workloadRef.workloadName, NONE),
        text("Status", _state),
        AGE,
    ),
)
