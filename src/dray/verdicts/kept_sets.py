"""Caches which nodes accept a pod, for each rule and *signature* (the part of the pod that the rule reads).

Only nodes that have changed are judged again, so in a burst of equal pods each pod causes one judgement. Left out:
the rules themselves (`dray.verdicts.node_rules`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

import msgspec

from dray.verdicts.demand import Candidate
from dray.verdicts.node_rules import NodePredicate, NodeRule
from dray.verdicts.nodes import NodeTable

KEPT_SETS = 512  # sets of nodes that are kept up to date, one for each rule and signature


@dataclass(slots=True)
class _KeptSet:
    judge: NodePredicate
    nodes: int = 0
    seen_objects: int = -1
    seen_usage: int = -1


class KeptSets:
    """The cached set of accepting nodes for each rule and signature."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._sets: OrderedDict[Hashable, _KeptSet] = OrderedDict()

    def accepting(self, rule: NodeRule, pod: Candidate) -> int:
        name, known = rule.name, pod.signatures
        key = known[name] if name in known else known.setdefault(name, _key(rule, pod))
        if key is None:
            return self._table.everyone
        kept = self._sets.get(key)
        if kept is None:
            kept = self._sets[key] = _KeptSet(rule.judge(pod))
            if len(self._sets) > KEPT_SETS:
                self._sets.popitem(last=False)
        else:
            self._sets.move_to_end(key)
        table = self._table
        if kept.seen_objects != table.object_changes.end or (
            rule.by_usage and kept.seen_usage != table.usage_changes.end
        ):
            self._catch_up(kept, rule.by_usage)
        return kept.nodes & table.everyone

    def _catch_up(self, kept: _KeptSet, by_usage: bool) -> None:
        table = self._table
        objects, usage = table.object_changes, table.usage_changes
        changed = objects.since(kept.seen_objects)
        if by_usage and changed is not None:
            more = usage.since(kept.seen_usage)
            changed = None if more is None else changed | more
        positions = range(len(table.infos)) if changed is None else changed
        for position in positions:
            bit = 1 << position
            info = table.infos[position]
            if info is not None and kept.judge(info):
                kept.nodes |= bit
            else:
                kept.nodes &= ~bit
        kept.seen_objects, kept.seen_usage = objects.end, usage.end


def _key(rule: NodeRule, pod: Candidate) -> Hashable | None:
    """Return the cache key of a rule and a pod's signature, or None if the result for the pod cannot be cached.

    Signatures that contain dicts are encoded to be hashable.
    """
    signature = rule.signature(pod)
    if signature is None:
        return None
    try:
        hash(signature)
    except TypeError:
        signature = msgspec.json.encode(signature)
    return rule.name, signature
