"""Cost of a node of each group by expander: Cluster Autoscaler's expanders as a single number to minimize. No I/O.

`price` is the price. `least-waste` is the size of the node, since all capacity beyond the pods' needs is wasted.
`priority`
is the price, times a thousand for each step down in priority. Tiny amounts break ties: fewer fallback steps first,
then
fewer nodes, then the order of the groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dray.autoscaling.groups import AutoscalingSettings, Expander, NodeGroup
from dray.verdicts.demand import amounts

_LOWER_PRIORITY = 1000.0
_TIE = 1e-7  # tie-breaker per node, relative to the most expensive node; a fallback step counts ten times as much
_LATER_GROUP = 1e-3  # tie-breaker per position in the file, relative to the above
_COMPARED = ("cpu", "memory")


class Costs(msgspec.Struct, frozen=True):
    """Cost of a node of each group with tie-breakers, cost of a fallback step, and the size of the tie-breaker."""

    nodes: tuple[float, ...]
    step: float
    tie: float

    def slack(self, units: int, steps: int) -> float:
        """Return an upper bound on the tie-breakers in the cost of nodes for this many units and fallback steps."""
        return self.tie * (2 * units + 10 * steps)


def costs_of(groups: Sequence[NodeGroup], settings: AutoscalingSettings) -> Costs:
    """Return the costs of the groups for the configured expander, with tie-breakers."""
    plain = measure(groups, settings.expander)
    tie = _TIE * (max(plain, default=0.0) or 1.0)
    nodes = tuple(cost + tie * (1 + _LATER_GROUP * place) for place, cost in enumerate(plain))
    return Costs(nodes, settings.alternativePrice + 10 * tie, tie)


def measure(groups: Sequence[NodeGroup], expander: Expander) -> list[float]:
    """Return the cost of a node of each group without tie-breakers.

    The result is in the order of the groups. The cost is the price, the size, or a price that each lower priority
    multiplies.
    """
    if expander is Expander.LEAST_WASTE:
        return _sizes(groups)
    if expander is Expander.PRIORITY:
        ranks = sorted({group.priority for group in groups}, reverse=True)
        return [_LOWER_PRIORITY ** ranks.index(group.priority) * (group.price or 1.0) for group in groups]
    return [group.price for group in groups]


def _sizes(groups: Sequence[NodeGroup]) -> list[float]:
    """Return the sizes of the nodes, averaged over CPU, memory and devices, each relative to the largest node.

    The result is in the order of the groups. What no group has is not compared.
    """
    each = [_amounts(group) for group in groups]
    largest = {name: max(one.get(name, 0) for one in each) for name in (*_COMPARED, "devices")}
    compared = [name for name, most in largest.items() if most]
    return [sum(one.get(name, 0) / largest[name] for name in compared) / max(1, len(compared)) for one in each]


def _amounts(group: NodeGroup) -> Mapping[str, int]:
    found = {name: much for name, much in amounts(group.template.node.status.allocatable).items() if name in _COMPARED}
    return found | {"devices": sum(len(piece.spec.devices) for piece in group.template.slices)}
