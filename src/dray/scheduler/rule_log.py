"""Log of scheduling rules for `-v 5`: which rule was applied to which nodes, with the result.

Each line is about one rule and one reason and names at most 100 nodes, so that a large cluster does not block the
event loop. Left out: the rules (`dray.verdicts`).
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
    """Log the verdicts of a placement's rules, if the log level is verbose enough."""
    if log.isEnabledFor(WHY):
        placement.observe = RuleLog(table).write


class RuleLog:
    """Writes log lines about the verdicts for nodes of one table."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def write(self, pod: Pod, rule: SchedulingRule, reason: NodeReason | None, nodes: int) -> None:
        """Log that a rule accepts (`reason` is None) or refuses a set of nodes for a pod."""
        said = "accepts" if reason is None else f"refuses ({wording.node_reason(reason)})"
        names = [info.name for info in islice(self._table.named(nodes), NAMED)]
        more = f" and {left} more" if (left := nodes.bit_count() - len(names)) > 0 else ""
        meta = pod.metadata
        log.log(WHY, "pod %s/%s: %s %s %s%s", meta.namespace, meta.name, rule, said, ", ".join(names), more)
