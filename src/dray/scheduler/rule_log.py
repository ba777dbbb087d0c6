"""The log of `-v 5`: which scheduling rule was asked about which nodes, and what it said.

A line tells of one rule and one reason, and names at most a hundred nodes, so that a large cluster does not hold the event
loop. Left out: the rules (`dray.verdicts`).
"""

from __future__ import annotations

import logging
from itertools import islice

from dray.api.reasons import wording
from dray.api.reasons.nodes import NodeReason, SchedulingRule
from dray.api.types.core import Pod
from dray.api.verbosity import WHY
from dray.core.attempt import Placement
from dray.verdicts.nodes import NodeTable

log = logging.getLogger(__name__)

NAMED = 100


def observe(placement: Placement, table: NodeTable) -> None:
    """Log what the rules of a placement say, if the level of the log asks for it."""
    if log.isEnabledFor(WHY):
        placement.observe = RuleLog(table).write


class RuleLog:
    """Writes lines about the nodes of one table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def write(self, pod: Pod, rule: SchedulingRule, reason: NodeReason | None, nodes: int) -> None:
        said = "accepts" if reason is None else f"refuses ({wording.node_reason(reason)})"
        names = [info.name for info in islice(self._table.named(nodes), NAMED)]
        more = f" and {left} more" if (left := nodes.bit_count() - len(names)) > 0 else ""
        meta = pod.metadata
        log.log(WHY, "pod %s/%s: %s %s %s%s", meta.namespace, meta.name, rule, said, ", ".join(names), more)
