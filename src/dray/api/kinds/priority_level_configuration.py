"""PriorityLevelConfiguration: concurrent requests of a priority level. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, TableColumn, text
from dray.api.kind import STATUS, KindRules, Resource
from dray.api.types import flowcontrol
from dray.api.wire import Tree


def _shares(level: flowcontrol.PriorityLevelConfiguration, now: float) -> int | str:
    shares = level.spec.limited.nominalConcurrencyShares if level.spec.limited else None
    return NONE if shares is None else shares


def _queuing(level: flowcontrol.PriorityLevelConfiguration, field: str) -> int | str:
    queuing = level.spec.limited.limitResponse.queuing if level.spec.limited else None
    return getattr(queuing, field) if queuing else NONE


def _exempt(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    if spec.get("type") == "Exempt":
        spec["exempt"] = {"nominalConcurrencyShares": 0, "lendablePercent": 0, **(spec.get("exempt") or {})}


KIND = Resource(
    flowcontrol.PriorityLevelConfiguration,
    namespaced=False,
    subresources=STATUS,
    inert=True,
    columns=(
        NAME,
        text("Type", "spec.type"),
        TableColumn("NominalConcurrencyShares", _shares),
        TableColumn("Queues", lambda level, now: _queuing(level, "queues")),
        TableColumn("HandSize", lambda level, now: _queuing(level, "handSize")),
        TableColumn("QueueLengthLimit", lambda level, now: _queuing(level, "queueLengthLimit")),
        AGE,
    ),
    generation=("spec",),
    rules=KindRules(order=("metadata", "rules", "changes")),
    defaults={
        "spec.limited.nominalConcurrencyShares": 30,
        "spec.limited.lendablePercent": 0,
        "spec.limited.limitResponse.queuing.queues": 64,
        "spec.limited.limitResponse.queuing.handSize": 8,
        "spec.limited.limitResponse.queuing.queueLengthLimit": 50,
    },
    more_defaults=_exempt,
)
