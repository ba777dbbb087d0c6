"""Finds the first solution in Kubernetes' order, without trying everything that comes before it.

Decisions are made in order: for every request an alternative, then its devices in ascending order. Each decision
takes the first option for which the oracle says that an event is still possible. An event is a complete solution or
an error: a selector that fails on a free device, or a constraint that refuses a device which a request for all
devices must include. Options that the oracle excludes contain no event, so the first event is the same that a plain
depth-first search would meet. Where the oracle is only a necessary condition (admin access across claims, errors),
the search backtracks like a plain one. Left out: writing decisions into claims (`result`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from dray.allocator.bits import above, lowest, members, split
from dray.allocator.budget import StepMeter
from dray.allocator.faults import Fault
from dray.allocator.feasibility import DemandGrant, FeasibleGrants
from dray.allocator.foresight import DECIDING, Foresight, SearchState, available, beginning
from dray.allocator.identity import RESULTS_LIMIT
from dray.allocator.packing import COUNTERS_ONLY, NodeUsage
from dray.allocator.problem import AllocationProblem, AlternativeBits, cause_of, derivation_of, refusal_of
from dray.cel import Interrupted


class Solution(msgspec.Struct, frozen=True, gc=False):
    """The chosen alternative and devices of each request."""

    grants: tuple[DemandGrant, ...]


class Stuck(NamedTuple):
    """The search was interrupted. Contains the deepest point that it reached."""

    item: int
    got: int


class _Event(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class _Step(NamedTuple):
    """A state and the grants that lead to it. The last grant is that of the current request."""

    state: SearchState
    done: tuple[DemandGrant, ...]


class _Frame:
    """A decision on the search stack: its remaining options, a solution known to exist below it, and what has failed."""

    __slots__ = ("all_exceeded", "bit", "doomed", "failed", "options", "step", "witness")

    def __init__(self, step: _Step, witness: FeasibleGrants | None, doomed: bool) -> None:
        self.step = step
        self.witness = witness
        self.doomed = doomed
        self.options: Iterator[_Step] = iter(())
        self.all_exceeded = self.deciding
        self.bit = 0  # the device being tried
        self.failed = 0  # devices that need not be tried

    @property
    def deciding(self) -> bool:
        return self.step.state.choice == DECIDING


def search(problem: AllocationProblem, usage: NodeUsage, meter: StepMeter) -> Solution | Fault | Stuck | None:
    """Return the first event, None if there is none, or `Stuck` if the meter ended the search."""
    walk = _SearchWalk(problem, usage, meter)
    try:
        return walk.run()
    except _Event as event:
        return event.fault
    except Interrupted:
        return walk.deepest


class _SearchWalk:
    def __init__(self, problem: AllocationProblem, usage: NodeUsage, meter: StepMeter) -> None:
        self.problem = problem
        self.items = problem.items
        self.taken = usage.taken
        self.shareable = problem.layout.shareable
        self.foresight = Foresight(problem, usage, meter)
        self.room = self.foresight.room
        self.least_after = _least_after(problem)
        self.deepest = Stuck(0, 0)
        self.hopeless: set[SearchState] = set()
        self.kinds: list[int] = []

    def run(self) -> Solution | None:
        stack: list[_Frame] = []
        step: _Step | None = _Step(beginning(self.problem), ())
        while True:
            if step is None:
                self._leave(stack)
            elif step.state.item == len(self.items):
                return Solution(step.done)
            elif (frame := self._enter(step, stack[-1] if stack else None)) is not None:
                stack.append(frame)
            elif stack:
                self._fail(stack[-1])
            if not stack:
                return None
            step = next(stack[-1].options, None)

    def _enter(self, step: _Step, parent: _Frame | None) -> _Frame | None:
        """Return a frame for a state, or None if no event is possible below it."""
        state = step.state
        self.deepest = max(self.deepest, Stuck(state.item, state.got))
        if state in self.hopeless:
            return None
        self.foresight.meter.spend()
        doomed = self._doomed(state)
        witness = _inherit(parent, step) if parent is not None else None
        if witness is None and not (doomed and parent is not None and parent.doomed):
            witness = self.foresight.answer(state)
            if witness is None and not self.foresight.error(state):
                return None
        frame = _Frame(step, witness, doomed)
        frame.options = self._alternatives(frame) if frame.deciding else self._devices(frame)
        return frame

    def _doomed(self, state: SearchState) -> bool:
        """Return whether a claim exceeds the limit of results with any remaining alternatives.

        Only errors are possible below. Which error Kubernetes meets depends on where it notices the excess, so below
        such a state the search tries everything in the same way.
        """
        if not self.problem.alarming:
            return False
        choices = self.items[state.item].choices
        if state.choice != DECIDING:
            choices = (choices[state.choice],)
        wanted = min(choice.wanted for choice in choices)
        return state.listed + wanted + self.least_after[state.item] > RESULTS_LIMIT

    def _leave(self, stack: list[_Frame]) -> None:
        """Remove a failed decision. If it failed because of the limit of results, also remove those of the same claim."""
        frame = stack.pop()
        if not frame.doomed:
            self.hopeless.add(frame.step.state)
        exceeded = frame.all_exceeded
        while stack:
            parent = stack[-1]
            exceeded = exceeded and self._claim(parent) == self._claim(frame)
            if not exceeded:
                self._fail(parent)
                return
            if parent.deciding:
                return
            frame = stack.pop()

    def _claim(self, frame: _Frame) -> int:
        return self.items[frame.step.state.item].claim

    def _fail(self, frame: _Frame) -> None:
        """Record that an option failed, not because of the limit of results. Equivalent devices need not be tried
        either.
        """
        frame.all_exceeded = False
        if not frame.deciding and not frame.doomed:
            used = frame.step.state.used
            frame.failed |= self._kind(frame.bit) & (used if used & frame.bit else ~used)

    def _kind(self, bit: int) -> int:
        if not self.kinds:
            sets = {self.taken}
            for item in self.items:
                for choice in item.choices:
                    sets |= {choice.matching, choice.usable, choice.devices, choice.errors}
                    for rule in choice.rules:
                        sets |= {rule.errors, *rule.values}
                    if choice.every and choice.constraints:
                        sets.update(members(choice.matching))  # the first one refused is named, so each is special
            sets.update(self.room.kinds((1 << self.problem.layout.size) - 1))
            self.kinds = split((1 << self.problem.layout.size) - 1, sets)
        return next(kind for kind in self.kinds if kind & bit)

    # Options of a decision, in Kubernetes' order. An error is raised when the search reaches it.

    def _alternatives(self, frame: _Frame) -> Iterator[_Step]:
        step = frame.step
        item = self.items[step.state.item]
        for number, choice in enumerate(item.choices):
            if step.state.listed + choice.wanted > RESULTS_LIMIT:
                continue
            begun = _Step(step.state._replace(choice=number), (*step.done, DemandGrant(number, 0)))
            if choice.every:
                complete = self._take_all(begun, choice)
                if complete is None:
                    self._fail(frame)
                else:
                    yield complete
            elif choice.wanted:
                yield begun
            else:
                yield self._next_item(begun)

    def _take_all(self, step: _Step, choice: AlternativeBits) -> _Step | None:
        """Take every matching device. Returns None if one is not free or too little of it is left, or if none
        matches.

        Raises _Event if a constraint refuses one or its derived attribute cannot be computed.
        """
        if not choice.matching:
            return None
        taken = step
        rest = choice.matching
        while rest:
            bit = lowest(rest)
            rest ^= bit
            free = bit & choice.usable & available(choice, True, self.taken, taken.state)
            if not free or not self.room.fitting(COUNTERS_ONLY, bit, taken.state.spent):
                return None
            if bit & self._underivable(choice, taken.state, bit):
                self._refuse_to_derive(choice, taken.state, bit)
            if not bit & self._allowed(choice, taken.state):
                raise _Event(refusal_of(self.problem, step.state.item, step.state.choice, bit))
            if not self.room.fitting(choice.takes, bit & choice.devices, taken.state.spent):
                return None
            taken = self._take(taken, choice, bit)
        return self._next_item(taken)

    def _devices(self, frame: _Frame) -> Iterator[_Step]:
        state = frame.step.state
        choice = self.items[state.item].choices[state.choice]
        free = available(choice, True, self.taken, state) & above(state.last)
        fitting = self.room.fitting(choice.takes, choice.devices & free & self._allowed(choice, state), state.spent)
        underivable = self._underivable(choice, state, free)
        rest = fitting | choice.errors & free | underivable
        while rest := rest & ~frame.failed:
            bit = frame.bit = lowest(rest)
            rest ^= bit
            if bit & choice.errors:
                raise _Event(cause_of(self.problem, state.item, state.choice, bit))
            if bit & underivable:
                self._refuse_to_derive(choice, state, bit)
            after = self._take(frame.step, choice, bit)
            yield after if after.state.got < choice.wanted else self._next_item(after)

    def _allowed(self, choice: AlternativeBits, state: SearchState) -> int:
        """Return the devices that the constraints accept in addition to the chosen ones. Without constraints, that is
        -1.
        """
        allowed = -1
        for number, rule in zip(choice.constraints, choice.rules, strict=True):
            allowed &= rule.admitted(state.pins[number])
        return allowed

    def _underivable(self, choice: AlternativeBits, state: SearchState, free: int) -> int:
        """Return the devices for which a constraint's derived attribute cannot be computed and that all earlier constraints accept.

        The caller decides whether such a device is the first one that the search visits.
        """
        if not choice.underivable:
            return 0
        takes = COUNTERS_ONLY if choice.every else choice.takes
        left = self.room.fitting(takes, choice.examined & free, state.spent)
        found = 0
        for number, rule in zip(choice.constraints, choice.rules, strict=True):
            found |= left & rule.errors
            left &= rule.admitted(state.pins[number])
        return found

    def _refuse_to_derive(self, choice: AlternativeBits, state: SearchState, bit: int) -> None:
        numbered = zip(choice.constraints, choice.rules, strict=True)
        number = next(number for number, rule in numbered if rule.errors & bit)
        raise _Event(derivation_of(self.problem, state.item, state.choice, number, bit))

    def _take(self, step: _Step, choice: AlternativeBits, bit: int) -> _Step:
        state = step.state
        pins = state.pins
        if choice.constraints:
            changed = list(pins)
            for number, rule in zip(choice.constraints, choice.rules, strict=True):
                changed[number] = rule.pinned(pins[number], bit)
            pins = tuple(changed)
        grant = step.done[-1]
        alone = bit & ~self.shareable
        spent = self.room.take(choice.takes, bit, state.spent)
        return _Step(
            SearchState(
                state.item,
                state.choice,
                state.got + 1,
                bit,
                state.used | alone,
                state.own | alone,
                state.listed,
                pins,
                spent,
            ),
            (*step.done[:-1], DemandGrant(grant.choice, grant.devices | bit)),
        )

    def _next_item(self, step: _Step) -> _Step:
        state = step.state
        item = state.item + 1
        same = item < len(self.items) and self.items[item].claim == self.items[state.item].claim
        own, listed = (state.own, state.listed + state.got) if same else (0, 0)
        return _Step(SearchState(item, DECIDING, 0, 0, state.used, own, listed, state.pins, state.spent), step.done)


def _least_after(problem: AllocationProblem) -> list[int]:
    """Return, for each request, the minimum number of devices that later requests of the same claim need."""
    after = [0] * len(problem.items)
    for number in range(len(problem.items) - 2, -1, -1):
        following = problem.items[number + 1]
        if following.claim == problem.items[number].claim:
            after[number] = after[number + 1] + min(choice.wanted for choice in following.choices)
    return after


def _inherit(parent: _Frame, step: _Step) -> FeasibleGrants | None:
    """Return the solution known to the parent decision if this option is part of it, else None."""
    if not parent.witness:
        return None
    item = parent.step.state.item
    known = parent.witness.get(item)
    if known is None or known.choice != step.done[item].choice:
        return None
    if parent.deciding:
        return parent.witness
    if lowest(known.devices) != parent.bit:
        return None
    return parent.witness | {item: DemandGrant(known.choice, known.devices ^ parent.bit)}
