"""The allocator as one pure function from (node, claims, classes, slices, taken, features, steps) to an outcome.

Each call starts without cached state. A scheduler uses an `Index` instead, which calls the same `decide`. Left out:
writing the outcome.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from dray.allocator.bits import first
from dray.allocator.budget import OutOfSteps, StepMeter, left_of
from dray.allocator.capacity import nanos
from dray.allocator.content import content_of
from dray.allocator.diagnosis import diagnose
from dray.allocator.faults import INVALID_POOLS, Fault
from dray.allocator.feasibility import DemandGrant
from dray.allocator.identity import Features
from dray.allocator.layout import Layout, NodeView
from dray.allocator.outcome import AllocationOutcome, Failed, GaveUp, Unallocatable
from dray.allocator.packing import NOTHING_SPENT, NodeUsage
from dray.allocator.plan import AllocationPlan, plan
from dray.allocator.pools import view
from dray.allocator.problem import AllocationProblem, pose
from dray.allocator.result import UnsupportedTerms, allocated
from dray.allocator.search import Solution, Stuck, search
from dray.allocator.work import Work
from dray.api.allocations import DeviceId, Share, consumed
from dray.api.pools import by_pool
from dray.api.reasons.devices import InputCode, InputProblem, TimedOut, TimeoutCode
from dray.api.types.core import Node
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.cel import Interrupt


def allocate(
    node: Node,
    claims: Sequence[ResourceClaim],
    classes: Iterable[DeviceClass],
    slices: Iterable[ResourceSlice],
    taken: Collection[tuple[str, str, str]] = (),
    features: Features = Features(),  # noqa: B008 (frozen)
    steps: int | None = None,
    shares: Iterable[Share] = (),
) -> AllocationOutcome:
    """Allocate devices for all claims together on a node.

    `taken` contains the devices in use as (driver, pool, device), and `shares` the parts of shared devices in use. `steps` limits
    the search (`dray.allocator.budget`). The result is the first solution in Kubernetes' order. Equal input gives equal results,
    except for the IDs of new shares.
    """
    by_name = {class_.metadata.name: class_ for class_ in classes}
    asked = plan([claim.spec.devices for claim in claims], by_name.get, features)
    seen = view(node, by_pool(slices), content_of, partial(Layout, features=features), features)
    names = [claim_name(claim) for claim in claims]
    try:
        problem = pose(asked, seen.layout, features, steps)
    except OutOfSteps:
        return INTERRUPTED
    if isinstance(problem, Fault):
        return problem.failed(seen, names)
    usage = used(seen, {DeviceId(*device) for device in taken}, shares)
    meter = StepMeter(left_of(steps, problem.steps))
    return conclude(decide(problem, usage, meter), problem, usage, seen, names)


def used(seen: NodeView, taken: Collection[DeviceId], shares: Iterable[Share]) -> NodeUsage:
    """Return what devices and shares in use occupy on a node.

    Devices that the node does not see count only if their slice is in `elsewhere` of the view.
    """
    layout, held = seen.layout, consumed(shares)
    bits = sum(1 << place for device in taken if (place := seen.places.get(device)) is not None)
    parts = [
        (1 << place, {name: nanos(much) for name, much in amounts.items()})
        for device, amounts in held.items()
        if (place := seen.places.get(device)) is not None
    ]
    drawn = [
        (number, device)
        for number, slices in enumerate(seen.elsewhere)
        for slice_ in slices
        for device in slice_.spec.devices
        if (id_ := DeviceId(slice_.spec.driver, slice_.spec.pool.name, device.name)) in taken or id_ in held
    ]
    return layout.packing.usage(bits, parts, drawn)


INTERRUPTED = GaveUp(TimedOut(TimeoutCode.SELECTORS))

AllocationDecision = Solution | Fault | Stuck | None


def decide(problem: AllocationProblem, usage: NodeUsage, meter: StepMeter) -> AllocationDecision:
    """Return the first event of the search, with a fast path for the most common kind of problem.

    The event is a Solution, a Fault, or Stuck if the meter ended the search. Returns None if the devices cannot serve
    the claims, but the fault INVALID_POOLS if the layout also contains invalid pools.
    """
    simple = problem.simple
    if simple is not None:
        free = simple.devices if simple.admin else simple.devices & ~usage.taken
        if free & problem.layout.packing.packed:
            free = problem.layout.packing.room(usage).fitting(simple.takes, free, NOTHING_SPENT)
        if free.bit_count() >= simple.wanted:
            return Solution((DemandGrant(0, first(free, simple.wanted)),))
        event: AllocationDecision = None
    else:
        event = search(problem, usage, meter)
    if event is None and problem.layout.invalid:
        return INVALID_POOLS
    return event


class Searching(Work):
    """The search for one problem. An interrupted search starts from the beginning."""

    def __init__(self, problem: AllocationProblem, usage: NodeUsage, limit: int | None) -> None:
        self._problem = problem
        self._usage = usage
        self.limit = limit
        self.decision: AllocationDecision = Stuck(0, 0)
        self._is_over = False

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def size(self) -> int:
        return self._problem.layout.size

    def run(self, interrupt: Interrupt | None) -> bool:
        meter = StepMeter(self.limit, interrupt)
        self.decision = decide(self._problem, self._usage, meter)
        self.steps = meter.steps
        self._is_over = meter.is_out or not isinstance(self.decision, Stuck)
        return self.is_over

    def run_quickly(self, steps: int) -> bool:
        """Search for at most `steps` steps from the beginning, and for at most the limit.

        Returns True if the search is over, with its result in `decision`, and False if it needs more steps.
        """
        meter = StepMeter(steps if self.limit is None else min(steps, self.limit))
        decision = decide(self._problem, self._usage, meter)
        self.steps = meter.steps
        if not isinstance(decision, Stuck) or (self.limit is not None and self.limit <= steps):
            self.decision, self._is_over = decision, True
        return self.is_over

    def found(self) -> tuple[AllocationDecision, int, bool]:
        return self.decision, self.steps, self.is_over

    def accept(self, found: tuple[AllocationDecision, int, bool]) -> None:
        self.decision, self.steps, self._is_over = found


def conclude(
    decision: AllocationDecision, problem: AllocationProblem, usage: NodeUsage, seen: NodeView, names: Sequence[str]
) -> AllocationOutcome:
    """Convert a decision to an outcome, with the names of one node and its claims.

    None becomes Unallocatable, which computes its reasons only when they are read. A Solution becomes Failed if its
    node selector terms are not supported.
    """
    match decision:
        case Solution(grants):
            try:
                return allocated(problem.plan, seen, grants)
            except UnsupportedTerms as error:
                return Failed(InputProblem(InputCode.NODE_SELECTOR_TERMS, number=error.terms))
        case Fault():
            return decision.failed(seen, names)
        case Stuck(item, got):
            return GaveUp(progress(problem.plan, item, got, names))
        case _:
            return Unallocatable(lambda meter: diagnose(problem, usage, seen, names, meter))


def progress(asked: AllocationPlan, item: int, got: int, names: Sequence[str]) -> TimedOut:
    """Describe how far a search had come when its steps ran out."""
    request = asked.requests[item]
    return TimedOut(
        TimeoutCode.SEARCH, names[request.claim], request.name, item + 1, requests=len(asked.requests), got=got
    )


def claim_name(claim: ResourceClaim) -> str:
    """Return the name of a claim for messages: NAMESPACE/NAME, or only NAME if the claim has no namespace."""
    meta = claim.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
