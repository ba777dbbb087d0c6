"""PriorityLevelConfiguration: concurrent requests of a priority level. Stored only; dray does not act on it."""

from __future__ import annotations

import math

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, TableColumn, text
from dray.api.errors import invalid
from dray.api.kind import STATUS, KindRules, Resource
from dray.api.kinds.flow_schema import EXEMPT
from dray.api.paths import SPEC, Path
from dray.api.rules import Errors
from dray.api.types import flowcontrol
from dray.api.wire import Tree

_HASH_BITS = 60  # bits of the hash that selects queues (shuffle sharding)


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


def exempt_level(level: flowcontrol.PriorityLevelConfiguration, _: Path | None) -> Errors:
    """Yield an error unless the level `exempt`, and only this level, has type Exempt."""
    if (level.metadata.name == EXEMPT) != (level.spec.type == "Exempt"):
        yield invalid(SPEC / "type", level.spec.type, f"type must be 'Exempt' if and only if name is '{EXEMPT}'")


def hand(queuing: flowcontrol.QueuingConfiguration, path: Path) -> Errors:
    """Yield an error if the hand size exceeds the number of queues or the entropy of the hash.

    A size of 0 or less is not reported here.
    """
    queues, size, here = queuing.queues, queuing.handSize, path / "handSize"
    if size > queues:
        if size > 0:
            yield invalid(here, size, f"should not be greater than queues ({queues})")
    elif size > 0 and (size > _HASH_BITS or math.perm(queues, size) > 1 << _HASH_BITS):
        text = f"required entropy bits of deckSize {queues} and handSize {size} should not be greater than {_HASH_BITS}"
        yield invalid(here, size, text)
