"""The allocator as one pure function: (node, claims, classes, slices, taken, features, deadline) to an outcome.

It reads everything anew at each call; a scheduler that asks again and again keeps an `Index` instead, which ends in the
same `decide`. Left out: writing the outcome anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence

from dray.allocator.bits import first
from dray.allocator.content import content_of
from dray.allocator.diagnosis import diagnose
from dray.allocator.feasibility import Grant
from dray.allocator.identity import DeviceId, Features
from dray.allocator.layout import Layout, View
from dray.allocator.outcome import Failed, GaveUp, Outcome, Unallocatable
from dray.allocator.plan import Plan, plan
from dray.allocator.pools import group, view
from dray.allocator.problem import Problem, pose
from dray.allocator.result import ResultError, allocated
from dray.allocator.search import Solution, Stuck, search
from dray.allocator.trouble import INVALID_POOLS, Trouble
from dray.api.types.core import Node
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.cel import Interrupted


def allocate(
    node: Node,
    claims: Sequence[ResourceClaim],
    classes: Iterable[DeviceClass],
    slices: Iterable[ResourceSlice],
    taken: Collection[tuple[str, str, str]] = (),
    features: Features = Features(),  # noqa: B008 (frozen)
    deadline: float | None = None,
) -> Outcome:
    """Serve all claims together on a node.

    `taken` are the devices in use, as (driver, pool, device); `deadline` is a reading of `time.monotonic()`. The answer
    is the first in the reference's order; the same input always gives the same answer.
    """
    by_name = {class_.metadata.name: class_ for class_ in classes}
    asked = plan([claim.spec.devices for claim in claims], by_name.get, features)
    seen = view(node, group(slices), content_of, Layout)
    names = [claim_name(claim) for claim in claims]
    try:
        problem = pose(asked, seen.layout, features, deadline)
    except Interrupted:
        return INTERRUPTED
    if isinstance(problem, Trouble):
        return problem.failed(seen, names)
    bits = 0
    for device in taken:
        place = seen.places.get(DeviceId(*device))
        if place is not None:
            bits |= 1 << place
    return conclude(decide(problem, bits, deadline), problem, bits, seen, names)


INTERRUPTED = GaveUp("timed out while selectors were evaluated")

Decision = Solution | Trouble | Stuck | None


def decide(problem: Problem, taken: int, deadline: float | None) -> Decision:
    """The first event of the search, with a short cut for the most common question."""
    simple = problem.simple
    if simple is not None:
        free = simple.devices if simple.admin else simple.devices & ~taken
        if free.bit_count() >= simple.wanted:
            return Solution((Grant(0, first(free, simple.wanted)),))
        event: Decision = None
    else:
        event = search(problem, taken, expiry(deadline))
    if event is None and problem.layout.invalid:
        return INVALID_POOLS
    return event


def conclude(decision: Decision, problem: Problem, taken: int, seen: View, names: Sequence[str]) -> Outcome:
    """Put a decision into the names of one node and its claims."""
    match decision:
        case Solution(grants):
            try:
                return allocated(problem.plan, seen, grants)
            except ResultError as error:
                return Failed(f"create NodeSelector: {error}")
        case Trouble():
            return decision.failed(seen, names)
        case Stuck(item, got):
            return GaveUp(progress(problem.plan, item, got, names))
        case _:
            return Unallocatable(lambda: diagnose(problem, taken, seen, names))


def progress(asked: Plan, item: int, got: int, names: Sequence[str]) -> str:
    """How far a search had come when its time was up."""
    request = asked.requests[item]
    place = f"request {item + 1} of {len(asked.requests)}"
    return f"timed out at claim {names[request.claim]}, request {request.name} ({place}), with {got} of its devices"


def expiry(deadline: float | None) -> Callable[[], bool]:
    """Whether a reading of the monotonic clock has passed."""
    if deadline is None:
        return lambda: False
    return lambda: time.monotonic() > deadline


def claim_name(claim: ResourceClaim) -> str:
    """A claim as messages name it."""
    meta = claim.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
