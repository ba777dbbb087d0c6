"""FlowSchema: assigns requests to a priority level. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, number, text
from dray.api.kind import STATUS, KindRules, Resource
from dray.api.types import flowcontrol


def _method(schema: flowcontrol.FlowSchema) -> str:
    method = schema.spec.distinguisherMethod
    return method.type if method else ""


def _dangling(schema: flowcontrol.FlowSchema) -> str:
    return next((c.status for c in schema.status.conditions if c.type == "Dangling"), "")


KIND = Resource(
    flowcontrol.FlowSchema,
    namespaced=False,
    subresources=STATUS,
    inert=True,
    columns=(
        NAME,
        text("PriorityLevel", "spec.priorityLevelConfiguration.name"),
        number("MatchingPrecedence", "spec.matchingPrecedence"),
        text("DistinguisherMethod", _method, NONE),
        AGE,
        text("MissingPL", _dangling, "?"),
    ),
    generation=("spec",),
    rules=KindRules(order=("metadata", "rules", "changes")),
    defaults={"spec.matchingPrecedence": 1000},
)
