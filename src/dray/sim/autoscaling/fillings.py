"""What a new node of a group can be filled with: how many units of which kinds, as the scheduler's own code places them.

A filling is tried once and remembered. The order in which the scheduler meets the pods matters, so a filling counts as
possible when it succeeds in one of several orders; one that was refused in all of them is taken as impossible. Left out:
which filling is worth most (`pricing`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from dray.sim.autoscaling.demand import Kind, Unit
from dray.sim.autoscaling.groups import NodeGroup
from dray.sim.autoscaling.needs import Needs, needs_of
from dray.sim.autoscaling.trial import Filled, Trial, World

Filling = tuple[tuple[int, int], ...]  # kinds by number, ascending, each with how many units of it
_FULL = 1.0 + 1e-9
_ALL_ORDERS = 4  # kinds of which every order is tried; of more, two


class Fillings:
    """The fillings of a node of one group.

    Where it `has_choices` (alternatives, partitions), one more unit on a node may change what the others get. `most` says how many units of each kind fit when nothing else is there, `least_steps` how many steps down lists of
    alternatives one of them takes then.
    """

    def __init__(self, group: NodeGroup, kinds: Sequence[Kind], world: World) -> None:
        self.group = group
        self.trial = Trial(group, world)
        self._kinds = kinds
        self.has_choices = _has_alternatives(kinds) or _has_partitions(group)
        self.needs: list[Needs] = needs_of(self.trial, kinds)
        self._known: dict[Filling, Filled | None] = {}
        alone = [self.filled(((number, 1),)) for number in range(len(kinds))]
        self.least_steps = [one.steps if one is not None else 0 for one in alone]
        self.most = [self._most(number) if one is not None else 0 for number, one in enumerate(alone)]

    def filled(self, filling: Filling) -> Filled | None:
        """What the units of a filling get on the node; None where they do not fit together."""
        if filling not in self._known:
            self._known[filling] = self._tried(filling) if self.is_plausible(filling) else None
        return self._known[filling]

    def is_plausible(self, filling: Filling) -> bool:
        """Whether the units of a filling take no more than there is, by what they need at the least."""
        return all(total <= _FULL for total in self._totals(filling))

    def largest_need(self, kind: int) -> float:
        return max(self.needs[kind], default=0.0)

    def _totals(self, filling: Filling) -> Iterator[float]:
        for row in zip(*(self.needs[kind] for kind, _ in filling), strict=True):
            yield sum(need * count for need, (_, count) in zip(row, filling, strict=True))

    def _tried(self, filling: Filling) -> Filled | None:
        hardest_first = sorted(filling, key=lambda pair: -self.largest_need(pair[0]))
        if len(filling) > _ALL_ORDERS:
            orders: Iterator[Sequence[tuple[int, int]]] = iter((hardest_first, hardest_first[::-1]))
        else:
            orders = itertools.permutations(hardest_first)
        tried = (self.trial.fill([*self._units(order)]) for order in orders)
        return next((found for found in tried if found is not None), None)

    def _units(self, order: Sequence[tuple[int, int]]) -> Iterator[Unit]:
        for kind, count in order:
            yield from self._kinds[kind].units[:count]

    def _most(self, kind: int) -> int:
        need = self.largest_need(kind)
        there = len(self._kinds[kind].units)
        plausible = min(there, int(_FULL / need)) if need else there
        return self.trial.count(self._kinds[kind].units[:plausible])


def _has_alternatives(kinds: Sequence[Kind]) -> bool:
    claims = [claim for kind in kinds for claim in kind.first.claims]
    return any(request.firstAvailable for claim in claims for request in claim.spec.devices.requests or ())


def _has_partitions(group: NodeGroup) -> bool:
    return any(piece.spec.sharedCounters for piece in group.template.slices)
