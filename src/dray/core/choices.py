"""Why one node is better than another for a pod: the scores of both nodes, or the rule that rejects the other node.

Left out: deciding (`attempt`), and the wording of reasons (`dray.api.reasons.wording`).
"""

from __future__ import annotations

import msgspec

from dray.api.reasons.nodes import NodeReason
from dray.core.attempt import Attempt, Placement
from dray.core.scores import weighted
from dray.verdicts.nodes import NodeTable

_ALIKE = 1e-6  # sums of scores that differ by less than this count as equal


class ScoreOfBoth(msgspec.Struct, frozen=True):
    """Weighted value of one score for two nodes."""

    score: str
    ours: float
    theirs: float

    @property
    def lead(self) -> float:
        """Weighted value of our node minus that of the other node, negative if the other node is better."""
        return self.ours - self.theirs


class NodeComparison(msgspec.Struct, frozen=True):
    """Result of comparing two nodes for one pod.

    If `refused` is set, a rule rejects the other node and `scores` is empty.
    """

    refused: NodeReason | None = None
    scores: tuple[ScoreOfBoth, ...] = ()

    @property
    def is_tie(self) -> bool:
        """Whether no rule rejects the other node and the sums of both nodes' scores are equal."""
        return self.refused is None and abs(sum(one.lead for one in self.scores)) < _ALIKE

    @property
    def decisive(self) -> ScoreOfBoth | None:
        """Return the score with the largest lead for our node, or None if no score favours our node."""
        first = max(self.scores, key=lambda one: one.lead, default=None)
        return first if first is not None and first.lead > _ALIKE else None


def compare_nodes(placement: Placement, table: NodeTable, attempt: Attempt, ours: str, theirs: str) -> NodeComparison:
    """Compare two nodes for the pod of an attempt, scoring them among all nodes that fit.

    Returns an empty comparison (a tie) if one of the nodes does not exist or if `ours` is not among the scored nodes.
    If the pod does not fit on `theirs`, the comparison contains the reason and no scores.
    """
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
