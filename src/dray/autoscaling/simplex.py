"""Simplex method for a linear program with a few dozen rows: fractional numbers of nodes for each packing. No I/O.

Rows are kinds (at least this many units) and groups (at most this many nodes); columns are packings, added one by
one. A unit may stay without a node at a penalty above any node's cost, so a solution always exists. The row prices
(duals) tell what a unit is worth; lower bounds are derived from them. Left out: finding packings (`bound`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_ZERO = 1e-9
_NUDGE = 1e-7  # perturbation of rows that prevents cycling
_PIVOTS = 5_000


class Master:
    """The linear program. Its packing columns are numbered from 0 in the order in which they were added."""

    def __init__(self, wanted: Sequence[int], rooms: Sequence[int], unplaced: Sequence[float]) -> None:
        self._kinds = len(wanted)
        size = self._size = len(wanted) + len(rooms)
        self._costs: list[float] = [*unplaced, *(0.0 for _ in range(size))]
        self._columns: list[Mapping[int, float]] = [{row: 1.0} for row in range(size)]
        self._columns += [{row: -1.0} for row in range(len(wanted))]
        self._first = len(self._columns)
        self._basis = [*range(size)]
        self._inverse = [[float(row == column) for column in range(size)] for row in range(size)]
        self._amounts = [much + _NUDGE * (row + 1) for row, much in enumerate((*wanted, *rooms))]

    def add(self, cost: float, group: int, packing: Sequence[tuple[int, int]]) -> None:
        """Add a packing of a node of a group as a column.

        `group` and the kinds in `packing`, each (kind, count), are indexes.
        """
        self._costs.append(cost)
        self._columns.append({self._kinds + group: 1.0} | {kind: float(count) for kind, count in packing})

    def solve(self) -> tuple[list[float], list[float]]:
        """Find the cheapest solution.

        Returns the value of a unit of each kind, and of room in each group (at most 0).
        """
        for _ in range(_PIVOTS):
            prices = self._prices()
            entering = min(range(len(self._columns)), key=lambda column: self._reduced(column, prices))
            if self._reduced(entering, prices) >= -_ZERO * max(1.0, abs(self._costs[entering])):
                break
            if not self._pivot(entering):
                break
        prices = self._prices()
        return [max(0.0, price) for price in prices[: self._kinds]], [min(0.0, one) for one in prices[self._kinds :]]

    def solution(self) -> list[tuple[int, float]]:
        """Return the packings used in the solution, by number, with their amounts.

        The number counts the packings in the order in which they were added. Amounts are positive and may be
        fractions.
        """
        used = zip(self._basis, self._amounts, strict=True)
        return sorted((column - self._first, much) for column, much in used if column >= self._first and much > _ZERO)

    def _prices(self) -> list[float]:
        """Return the row prices (duals) of the current basis."""
        prices = [0.0] * self._size
        for column, row in zip(self._basis, self._inverse, strict=True):
            cost = self._costs[column]
            if cost:
                prices = [price + cost * one for price, one in zip(prices, row, strict=True)]
        return prices

    def _reduced(self, column: int, prices: Sequence[float]) -> float:
        """Return the reduced cost of a column."""
        return self._costs[column] - sum(prices[row] * much for row, much in self._columns[column].items())

    def _pivot(self, entering: int) -> bool:
        """Enter a column into the basis. Returns False if unbounded, which is impossible with positive costs.

        `entering` is the index of the column.
        """
        column = self._columns[entering].items()
        change = [sum(row[at] * much for at, much in column) for row in self._inverse]
        ratios = [(self._amounts[at] / much, at) for at, much in enumerate(change) if much > _ZERO]
        if not ratios:
            return False
        ratio, leaving = min(ratios)
        pivot = [one / change[leaving] for one in self._inverse[leaving]]
        for at, much in enumerate(change):
            if at != leaving and abs(much) > 1e-13:
                self._inverse[at] = [one - much * other for one, other in zip(self._inverse[at], pivot, strict=True)]
                self._amounts[at] = max(0.0, self._amounts[at] - much * ratio)
        self._inverse[leaving], self._amounts[leaving], self._basis[leaving] = pivot, ratio, entering
        return True
