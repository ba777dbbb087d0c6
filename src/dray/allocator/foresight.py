"""Decides whether a state of the search can still lead to an event: a complete answer, or an error on the way to one.

The undecided part of the problem becomes demands for the oracle. Two cases are approximated so that no event is
missed: admin access in several claims at once, where a device may serve twice, and errors, for which only what comes
before them must be servable. Left out: the order of decisions (`search`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dray.allocator.bits import above, lowest, members
from dray.allocator.budget import StepMeter
from dray.allocator.feasibility import DeviceDemand, FeasibleGrants, Option, Oracle, Standing
from dray.allocator.identity import RESULTS_LIMIT
from dray.allocator.packing import COUNTERS_ONLY, NOTHING_SPENT, NodeUsage, Spent
from dray.allocator.problem import AllocationProblem, AlternativeBits, ConstraintBits, Item

DECIDING = -1


class SearchState(NamedTuple):
    """The decisions so far. `used` contains the devices of all claims, `own` those of the current claim.

    Shareable devices are in neither set; what was taken of them is in `spent`.
    """

    item: int
    choice: int  # DECIDING: the alternative is still open
    got: int
    last: int
    used: int
    own: int
    listed: int
    pins: tuple[int, ...]
    spent: Spent = NOTHING_SPENT


def beginning(problem: AllocationProblem) -> SearchState:
    """Return the state in which nothing is decided."""
    return SearchState(0, DECIDING, 0, 0, 0, 0, 0, (0,) * len(problem.rules))


def available(choice: AlternativeBits, current_claim: bool, taken: int, state: SearchState) -> int:
    """Return the devices that an alternative may take, as a bit set without an end (a negative integer).

    Admin access excludes only devices of its own claim, and those only if `current_claim` says that the alternative
    belongs to the claim being decided.
    """
    if not choice.admin:
        return ~(taken | state.used)
    return ~state.own if current_claim else -1


Trigger = tuple[Option, tuple[int, ...]]


def _failing(choice: AlternativeBits) -> int:
    """Return the devices on which an expression fails, which ends the search with an error. 0 if there are none."""
    return choice.errors | choice.underivable & choice.examined


def _first_refused(rule: ConstraintBits, pin: int, matching: int) -> int:
    """Take devices in order until a constraint refuses one. Returns the devices up to and including that one.

    Returns 0 if the constraint refuses none. `pin` contains the value or values chosen so far.
    """
    upto = 0
    for bit in members(matching):
        upto |= bit
        if not bit & rule.admitted(pin):
            return upto
        pin = rule.pinned(pin, bit)
    return 0


class Foresight:
    """Answers whether an event lies ahead of states of one search."""

    def __init__(self, problem: AllocationProblem, usage: NodeUsage, meter: StepMeter) -> None:
        self.problem = problem
        self.items = problem.items
        self.taken = usage.taken
        self.meter = meter
        self.room = problem.layout.packing.room(usage)
        self.oracle = Oracle(problem.rules, self.room, meter)

    def answer(self, state: SearchState) -> FeasibleGrants | None:
        """Return a way to serve everything undecided, or None if there is none.

        The grants are empty if nothing is undecided, or if a way may exist but is not known.
        """
        demands = self._demands(state, len(self.items))
        return None if demands is None else self.serve(demands, state)

    def error(self, state: SearchState) -> bool:
        """Return whether the search can run into an error although not everything can be served.

        Returns False at the first request whose predecessors cannot be served, because the search never gets there.
        """
        if not self.problem.alarming:
            return False
        if state.choice != DECIDING:
            choice = self.items[state.item].choices[state.choice]
            if _failing(choice) & available(choice, True, self.taken, state) & above(state.last):
                return True
        first = state.item + (state.choice != DECIDING)
        for number in range(first, len(self.items)):
            before = self._demands(state, number)
            if before is None or self.serve(before, state) is None:
                return False
            for trigger, pins in self._triggers(number, state):
                demand = DeviceDemand(number, self.items[number].claim, (trigger,))
                if self.serve([*before, demand], state._replace(pins=pins)) is not None:
                    return True
        return False

    def _triggers(self, number: int, state: SearchState) -> Iterator[Trigger]:
        """Yield the devices that must be free, and the chosen values, for request `number` to end the search with an
        error.
        """
        item = self.items[number]
        for place, choice in enumerate(item.choices):
            free = available(choice, item.claim == self.items[state.item].claim, self.taken, state)
            if _failing(choice) & free:
                yield Option(place, 1, _failing(choice) & free, ()), state.pins
            if choice.every and choice.constraints and choice.wanted <= RESULTS_LIMIT:
                visited = self.room.fitting(COUNTERS_ONLY, choice.usable & free, state.spent)
                for rule_number, rule in zip(choice.constraints, choice.rules, strict=True):
                    yield from self._refusals(number, place, rule_number, rule, visited, state)

    def _refusals(
        self, number: int, place: int, rule_number: int, rule: ConstraintBits, visited: int, state: SearchState
    ) -> Iterator[Trigger]:
        """Yield the ways in which a constraint can refuse a device that a request for all devices must include.

        The devices can conflict with each other, or with a value that an earlier request chose. `visited` are the
        devices whose counters suffice, because counters are checked before constraints.
        """
        matching = self.items[number].choices[place].matching
        pin = state.pins[rule_number]
        upto = _first_refused(rule, pin, matching)
        if upto and not upto & ~visited:
            yield Option(place, upto.bit_count(), upto, (), COUNTERS_ONLY), state.pins
        settled = pin and not rule.distinct and not rule.loose
        first = lowest(matching)
        if settled or not first & visited or not self._covered_before(number, rule_number, state):
            return
        if rule.distinct or rule.loose:
            yield Option(place, 1, first, (), COUNTERS_ONLY), state.pins
            return
        for value in rule.values:
            if not value & first:
                pins = (*state.pins[:rule_number], value, *state.pins[rule_number + 1 :])
                yield Option(place, 1, first, (), COUNTERS_ONLY), pins

    def _covered_before(self, number: int, rule: int, state: SearchState) -> bool:
        """Return whether an earlier request that is not complete yet can choose devices under a constraint."""
        return any(rule in choice.constraints for item in self.items[state.item : number] for choice in item.choices)

    def _demands(self, state: SearchState, end: int) -> list[DeviceDemand] | None:
        """Return the demands of the requests from the current one up to number `end`, or None if one cannot be served."""
        demands = []
        for number in range(state.item, end):
            demand = self.demand(number, state)
            if demand is None:
                return None
            demands.append(demand)
        return demands

    def demand(self, number: int, state: SearchState) -> DeviceDemand | None:
        """Return what request `number` still needs, or None if no alternative is possible."""
        item = self.items[number]
        options = self._options(item, number, state)
        return DeviceDemand(number, item.claim, options) if options else None

    def _options(self, item: Item, number: int, state: SearchState) -> tuple[Option, ...]:
        current = item.claim == self.items[state.item].claim
        if number == state.item and state.choice != DECIDING:
            choice = item.choices[state.choice]
            free = available(choice, current, self.taken, state) & above(state.last)
            return (self._option(state.choice, choice, choice.wanted - state.got, free, state),)
        return tuple(
            self._option(place, choice, choice.wanted, available(choice, current, self.taken, state), state)
            for place, choice in enumerate(item.choices)
            if choice.wanted <= RESULTS_LIMIT and (choice.wanted or not choice.every)
        )

    def _option(self, place: int, choice: AlternativeBits, wanted: int, free: int, state: SearchState) -> Option:
        devices = self.room.fitting(choice.takes, choice.devices & free, state.spent)
        return Option(place, wanted, devices, choice.firm, choice.takes)

    def serve(self, demands: list[DeviceDemand], state: SearchState) -> FeasibleGrants | None:
        """Return a way to serve demands in addition to what is already decided, or None if there is none.

        With demands that have admin access in several claims, each claim is solved apart. The grants are empty then
        if each part can be served.
        """
        budgets = dict.fromkeys(self.problem.limited, RESULTS_LIMIT)
        claim = self.items[state.item].claim
        if claim in budgets:
            budgets[claim] -= state.listed + state.got
        claims = {demand.claim for demand in demands}
        privileged = {demand.claim for demand in demands if self._is_privileged(demand)}
        if not privileged or len(claims) == 1:
            return self.oracle.solve(demands, Standing(state.pins, state.spent), budgets)
        apart = [[demand for demand in demands if demand.claim == claim] for claim in privileged]
        apart.append([demand for demand in demands if not self._is_privileged(demand)])
        solved = all(self.oracle.solve(part, Standing(state.pins, state.spent), budgets) is not None for part in apart)
        return {} if solved else None

    def _is_privileged(self, demand: DeviceDemand) -> bool:
        """Return whether a demand with admin access may get a device that also serves another claim."""
        choice = self.items[demand.item].choices[0]
        return choice.admin and bool((choice.matching | choice.errors) & ~self.oracle.shareable)
