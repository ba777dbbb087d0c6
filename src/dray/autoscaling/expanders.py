"""What a node of a group costs in the measure that is to be small: the expanders of Cluster Autoscaler as one number.

`price` is the price. `least-waste` is the size of the node, since pods need what they need and all else is wasted.
`priority` is the price, a thousand times as much for each step down in priority. Ties are broken by tiny amounts: fewer
steps down lists of alternatives first, then fewer nodes, then the order of the groups. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dray.autoscaling.groups import AutoscalingSettings, Expander, NodeGroup
from dray.verdicts.demand import amounts

_LOWER_PRIORITY = 1000.0
_TIE = 1e-7  # of the dearest node, for a node; ten times as much for a step down a list of alternatives
_LATER_GROUP = 1e-3  # of the above, for each place in the file
_COMPARED = ("cpu", "memory")


class Costs(msgspec.Struct, frozen=True):
    """What a node of each group costs, with ties broken, and what a step down a list of alternatives costs."""

    nodes: tuple[float, ...]
    step: float
    tie: float

    def slack(self, units: int, steps: int) -> float:
        """What breaking ties can add at most to the cost of so many pods' nodes."""
        return self.tie * (2 * units + 10 * steps)


def costs_of(groups: Sequence[NodeGroup], settings: AutoscalingSettings) -> Costs:
    """The costs of the groups under the expander that is set."""
    plain = measure(groups, settings.expander)
    tie = _TIE * (max(plain, default=0.0) or 1.0)
    nodes = tuple(cost + tie * (1 + _LATER_GROUP * place) for place, cost in enumerate(plain))
    return Costs(nodes, settings.alternativePrice + 10 * tie, tie)


def measure(groups: Sequence[NodeGroup], expander: Expander) -> list[float]:
    """What a node of each group costs, ties not broken."""
    if expander is Expander.LEAST_WASTE:
        return _sizes(groups)
    if expander is Expander.PRIORITY:
        ranks = sorted({group.priority for group in groups}, reverse=True)
        return [_LOWER_PRIORITY ** ranks.index(group.priority) * (group.price or 1.0) for group in groups]
    return [group.price for group in groups]


def _sizes(groups: Sequence[NodeGroup]) -> list[float]:
    """How large the nodes are, the largest one being 1 in each of cpu, memory and devices that any of them has."""
    each = [_amounts(group) for group in groups]
    largest = {name: max(one.get(name, 0) for one in each) for name in (*_COMPARED, "devices")}
    compared = [name for name, most in largest.items() if most]
    return [sum(one.get(name, 0) / largest[name] for name in compared) / max(1, len(compared)) for one in each]


def _amounts(group: NodeGroup) -> Mapping[str, int]:
    found = {name: much for name, much in amounts(group.template.node.status.allocatable).items() if name in _COMPARED}
    return found | {"devices": sum(len(piece.spec.devices) for piece in group.template.slices)}
