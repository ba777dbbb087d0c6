"""Packings of a new node of a group: how many units of which kinds fit, decided by the scheduler's own code.

Each packing is tried once and cached. The order of pods matters, so a packing is possible if it succeeds in one of
several orders; if it fails in all of them, it is taken as impossible. Left out: which packing is most valuable
(`pricing`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from dray.autoscaling.demand import PodKind, Unit
from dray.autoscaling.groups import NodeGroup
from dray.autoscaling.needs import UnitNeeds, needs_of, reaching
from dray.autoscaling.trial import ClusterTemplate, Filled, Trial

NodePacking = tuple[tuple[int, int], ...]  # pairs of kind number (ascending) and number of units
_FULL = 1.0 + 1e-9
_MIXED = 120  # limit of orders to try


class Packings:
    """Possible packings of a node of one group.

    With `has_choices` (alternatives, partitions), a further unit may change what other units get. By kind, `most` is
    how many units fit alone, `least_steps` the fallback steps of a single unit, and `reaches` whether it may use
    network-attached devices.
    """

    def __init__(
        self, group: NodeGroup, kinds: Sequence[PodKind], base: ClusterTemplate, *, thorough: bool = True
    ) -> None:
        """With `thorough`, many orders are tried before a packing is taken as impossible."""
        self.group = group
        self.trial = Trial(group, base)
        self._kinds = kinds
        self._thorough = thorough
        self.has_choices = _has_alternatives(kinds) or _has_partitions(group)
        self.needs: list[UnitNeeds] = needs_of(self.trial, kinds)
        self.reaches = reaching(self.trial, kinds)
        self._known: dict[NodePacking, Filled | None] = {}
        alone = [self.filled(((number, 1),)) for number in range(len(kinds))]
        self.least_steps = [one.steps if one is not None else 0 for one in alone]
        self.most = [self._most(number) if one is not None else 0 for number, one in enumerate(alone)]

    def filled(self, packing: NodePacking) -> Filled | None:
        """Return what the units of a packing get on the node, or None if they do not fit together. Cached."""
        if packing not in self._known:
            self._known[packing] = self._tried(packing) if self.is_plausible(packing) else None
        return self._known[packing]

    def is_plausible(self, packing: NodePacking) -> bool:
        """Whether the minimum needs of a packing's units do not exceed the node."""
        return all(total <= _FULL for total in self._totals(packing))

    def largest_need(self, kind: int) -> float:
        """Return the largest share that a unit of the kind needs of any resource.

        `kind` is an index. The share is from 0, and 0 if nothing is needed.
        """
        return max(self.needs[kind], default=0.0)

    def _totals(self, packing: NodePacking) -> Iterator[float]:
        for row in zip(*(self.needs[kind] for kind, _ in packing), strict=True):
            yield sum(need * count for need, (_, count) in zip(row, packing, strict=True))

    def _tried(self, packing: NodePacking) -> Filled | None:
        """Try a packing in several orders. Returns the first success, or None.

        None if no tried order fits.
        """
        tried = (self.trial.fill([*self._units(order)]) for order in self._orders(packing))
        return next((found for found in tried if found is not None), None)

    def _orders(self, packing: NodePacking) -> Iterable[Sequence[int]]:
        """Return orders of the kinds in a packing, hardest kinds first."""
        blocks = [[kind] * count for kind, count in sorted(packing, key=lambda pair: -self.largest_need(pair[0]))]
        if not self._thorough:
            return [*itertools.chain(*blocks)], [*itertools.chain(*reversed(blocks))]
        if self.has_choices and _mixtures(packing) <= _MIXED:
            return _mixed(blocks)
        return ([*itertools.chain(*order)] for order in itertools.islice(itertools.permutations(blocks), _MIXED))

    def _units(self, order: Iterable[int]) -> Iterator[Unit]:
        """Yield units for an order of kinds, from the start of each kind."""
        units = {kind: iter(self._kinds[kind].units) for kind in {*order}}
        return (next(units[kind]) for kind in order)

    def _most(self, kind: int) -> int:
        """Return how many units of a kind fit alone."""
        need = self.largest_need(kind)
        there = len(self._kinds[kind].units)
        plausible = min(there, int(_FULL / need)) if need else there
        return self.trial.count(self._kinds[kind].units[:plausible])


def _has_alternatives(kinds: Sequence[PodKind]) -> bool:
    claims = [claim for kind in kinds for claim in kind.first.claims]
    return any(request.firstAvailable for claim in claims for request in claim.spec.devices.requests or ())


def _has_partitions(group: NodeGroup) -> bool:
    return any(piece.spec.sharedCounters for piece in group.template.slices)


def _mixtures(packing: NodePacking) -> int:
    """Return the number of distinct orders of the units in a packing."""
    found = math.factorial(sum(count for _, count in packing))
    for _, count in packing:
        found //= math.factorial(count)
    return found


def _mixed(blocks: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield every distinct order of the members of blocks, where members of a block are equal."""
    if not any(blocks):
        yield []
    for at, block in enumerate(blocks):
        if block:
            rest = [*blocks[:at], block[1:], *blocks[at + 1 :]]
            yield from ([block[0], *others] for others in _mixed(rest))
