"""PriorityLevelConfiguration: how many requests of a level run at the same time. It is only stored."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, TableColumn, text
from dray.api.kind import FLOWCONTROL, STATUS, Resource
from dray.api.types import flowcontrol


def _shares(level: flowcontrol.PriorityLevelConfiguration, now: float) -> int | str:
    shares = level.spec.limited.nominalConcurrencyShares if level.spec.limited else None
    return NONE if shares is None else shares


def _queuing(level: flowcontrol.PriorityLevelConfiguration, field: str) -> int | str:
    queuing = level.spec.limited.limitResponse.queuing if level.spec.limited else None
    return getattr(queuing, field) if queuing else NONE


KIND = Resource(
    FLOWCONTROL,
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
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
)
