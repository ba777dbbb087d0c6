"""PriorityClass: a named pod priority."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, flag, number, text
from dray.api.kind import Resource
from dray.api.types import scheduling

KIND = Resource(
    scheduling.PriorityClass,
    namespaced=False,
    short_names=("pc",),
    columns=(
        NAME,
        number("Value", "value"),
        flag("Global-Default", "globalDefault"),
        text("PreemptionPolicy", "preemptionPolicy"),
        AGE,
    ),
    generation=(),
    defaults={"preemptionPolicy": "PreemptLowerPriority"},
)
