"""PodDisruptionBudget: limits how many pods of an application can be evicted at the same time."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, number, text
from dray.api.counts import at_most_all, scaled
from dray.api.errors import invalid
from dray.api.kind import STATUS, Resource
from dray.api.paths import Path
from dray.api.rules import Errors
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


def budget_bounds(spec: policy.PodDisruptionBudgetSpec, path: Path) -> Errors:
    """Yield errors if both bounds of a PodDisruptionBudget are set, or a bound is invalid. Both can be missing."""
    if spec.minAvailable is not None and spec.maxUnavailable is not None:
        yield invalid(path, spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        yield from scaled(getattr(spec, field), path / field)
        yield from at_most_all(getattr(spec, field), path / field)
