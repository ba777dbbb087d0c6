"""Why one node is better than another for a pod: what each score says of both, or the rule that refuses one of them.

Left out: deciding (`attempt`), and words (`dray.api.reasons.wording`).
"""

from __future__ import annotations

import msgspec

from dray.api.reasons.nodes import NodeReason
from dray.core.attempt import Attempt, Placement
from dray.core.scores import weighted
from dray.verdicts.nodes import NodeTable

_ALIKE = 1e-6  # sums of scores that differ by less are equal


class ScoreOfBoth(msgspec.Struct, frozen=True):
    """What a score, times its weight, gives to two nodes."""

    score: str
    ours: float
    theirs: float

    @property
    def lead(self) -> float:
        return self.ours - self.theirs


class NodeComparison(msgspec.Struct, frozen=True):
    """Two nodes for one pod. With `refused`, a rule refuses the other node and no scores were compared."""

    refused: NodeReason | None = None
    scores: tuple[ScoreOfBoth, ...] = ()

    @property
    def is_tie(self) -> bool:
        """Whether both nodes are equally good."""
        return self.refused is None and abs(sum(one.lead for one in self.scores)) < _ALIKE

    @property
    def decisive(self) -> ScoreOfBoth | None:
        """The score that speaks most for our node, if any does."""
        first = max(self.scores, key=lambda one: one.lead, default=None)
        return first if first is not None and first.lead > _ALIKE else None


def compare_nodes(placement: Placement, table: NodeTable, attempt: Attempt, ours: str, theirs: str) -> NodeComparison:
    """Compare two nodes among all that fit the pod of an attempt. A node that does not exist counts as equal."""
    judgement = placement.judge(attempt)
    attempt.devices = judgement.devices
    found = [table.get(name) for name in (ours, theirs)]
    if any(info is None or info.node is None for info in found):
        return NodeComparison()
    first, second = (info.position for info in found if info is not None)
    if not judgement.nodes >> second & 1:
        refusals = (reason for reason, nodes in judgement.refused.items() if nodes >> second & 1)
        return NodeComparison(next(refusals, None))
    every = table.sample(judgement.nodes, 0, judgement.nodes.bit_count())
    if first not in every.positions:
        return NodeComparison()
    at, there = every.positions.index(first), every.positions.index(second)
    said = weighted(attempt.candidate, every, placement.score_rules(attempt))
    return NodeComparison(scores=tuple(ScoreOfBoth(name, row[at], row[there]) for name, row in said.items()))
