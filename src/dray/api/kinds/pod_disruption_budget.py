"""PodDisruptionBudget: limits how many pods of an application can be evicted at the same time."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number, text
from dray.api.kind import STATUS, Resource
from dray.api.types import policy


def _bound(bound: int | str | None) -> str:
    return "N/A" if bound is None else str(bound)


KIND = Resource(
    policy.PodDisruptionBudget,
    short_names=("pdb",),
    subresources=STATUS,
    columns=(
        NAME,
        text("Min Available", lambda budget: _bound(budget.spec.minAvailable)),
        text("Max Unavailable", lambda budget: _bound(budget.spec.maxUnavailable)),
        number("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    generation=("spec",),
    status_writes_metadata=True,
    conditional=("v1",),
)
