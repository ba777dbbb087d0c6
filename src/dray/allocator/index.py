"""The allocator for a scheduler: the same answers as `allocate`, computed incrementally from cached state.

Nothing is computed twice. Claims with equal specs share one plan. A plan is evaluated once for each layout. A
decision is cached by which of the relevant devices are in use. The nodes that fit are a bit set for each plan, and a
change invalidates only nodes that see it and that it can affect. Nodes that see exactly the same devices for a plan,
as with a network-attached pool, are decided together. Claims that cannot compete for devices are decided separately.
Not thread-safe. Left out: watching the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from dray.allocator.allocation import INTERRUPTED, AllocationDecision, Searching, claim_name, conclude, decide
from dray.allocator.bits import positions, without
from dray.allocator.budget import QUICK_SEARCH, UNLIMITED, Budget, OutOfSteps, StepMeter, Turn, left_of
from dray.allocator.content import DeviceList
from dray.allocator.faults import Fault
from dray.allocator.identity import Features
from dray.allocator.intactness import cost_of
from dray.allocator.inventory import Inventory, NodeDevices, SliceChange
from dray.allocator.layout import Layout
from dray.allocator.outcome import AllocationOutcome, Failed, score
from dray.allocator.packing import NodeUsage
from dray.allocator.plan import AllocationPlan, plan
from dray.allocator.problem import AllocationProblem, pose
from dray.allocator.search import Solution, Stuck
from dray.allocator.work import Deferred, LeftOver, Work
from dray.api.allocations import DeviceId, Share
from dray.api.reasons.devices import InputCode, InputProblem, PoolState
from dray.api.types.core import Node
from dray.api.types.resource import Device, DeviceClass, ResourceClaim, ResourceSlice
from dray.cel import Interrupted

PLANS_KEPT = 256  # plans in the cache; the least recently used one is evicted
DECISIONS_KEPT = 16384  # cached decisions of one plan; when full, all are dropped
SEARCHES_KEPT = 16384  # unfinished searches of one plan
LAYOUTS_KEPT = 64  # layouts cached for one plan before those that no node has any more are removed
LOG_KEPT = 8192  # changes in the log before all plans are brought up to date

_encode = msgspec.msgpack.Encoder().encode
_NOTHING_LEFT_OVER = LeftOver((), False)
_UNPOSED = Fault(InputProblem(InputCode.UNKNOWN_NODE), 0)  # placeholder for a layout that has not been evaluated

QuestionKey = tuple[bytes, ...]  # encoded specs of claims


class Fits:
    """The nodes that can serve some claims, at the time of the question. Iterates over the names of the nodes that
    fit.

    The same question returns the same object until the answer changes. `nodes`, `failing` and `undecided` are bit
    sets over node numbers: nodes that fit, nodes with invalid input (`Index.allocate` returns the error), and nodes
    whose steps ran out or whose computation was postponed (`Index.left_over`). `beyond` are undecided nodes that were
    not examined because the total budget was used up. `question` is equal for claims with equal specs.
    """

    def __init__(
        self,
        inventory: Inventory,
        question: QuestionKey,
        nodes: int,
        failing: int,
        undecided: int,
        score: Callable[[int], int],
        beyond: int = 0,
    ) -> None:
        self._inventory = inventory
        self._score = score
        self.question = question
        self.nodes = nodes
        self.failing = failing
        self.undecided = undecided
        self.beyond = beyond

    def __len__(self) -> int:
        return self.nodes.bit_count()

    def __bool__(self) -> bool:
        return self.nodes != 0

    def __contains__(self, node: str) -> bool:
        number = self._inventory.number(node)
        return number is not None and bool(self.nodes >> number & 1)

    def __iter__(self) -> Iterator[str]:
        return self.names(self.nodes)

    def without(self, number: int) -> Fits:
        """Return a copy in which the node with bit position `number` does not fit."""
        rest = self.nodes & ~(1 << number)
        return Fits(self._inventory, self.question, rest, self.failing, self.undecided, self._score, self.beyond)

    def names(self, nodes: int) -> Iterator[str]:
        """Yield the names of the nodes in a bit set, ordered by bit position. Positions without a node are skipped."""
        by_number = self._inventory.by_number
        for number in positions(nodes):
            node_devices = by_number[number]
            if node_devices is not None:
                yield node_devices.node.metadata.name

    def score(self, node: str) -> int:
        """Return the score of the alternatives chosen on a node (8 minus the index, summed), or 0 if it does not fit."""
        number = self._inventory.number(node)
        return 0 if number is None or not self.nodes >> number & 1 else self._score(number)


_SearchKey = tuple[Layout, NodeUsage]


class _Verdict(NamedTuple):
    """Result for a node: it fits, its input is invalid, or its steps ran out. If all are False, it does not fit."""

    fits: bool = False
    fails: bool = False
    is_out: bool = False


class _NodeGroup:
    """Nodes with the same relevant devices, and the decision for all of them."""

    __slots__ = ("key", "layout", "nodes", "score", "search", "size", "steps", "verdict")

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key
        self.nodes = 0
        self.size = 0
        self.score = 0
        self.verdict: _Verdict | None = None  # None if it is unknown or does not hold for all members
        self.layout: Layout | None = None  # layout and search key of the member for which the decision was made
        self.search: _SearchKey | None = None
        self.steps = 0  # steps of that search

    def join(self, number: int) -> None:
        self.nodes |= 1 << number
        self.size += 1
        self.verdict = None

    def leave(self, number: int) -> None:
        self.nodes &= ~(1 << number)
        self.size -= 1


class _PlanEntry:
    """Cached results of one plan with a budget of `limit` steps for each node.

    On the nodes in `apart`, the claims of the plan cannot compete for devices and are decided one by one.
    """

    def __init__(self, question: QuestionKey, plan: AllocationPlan, position: int, limit: int | None) -> None:
        self.question = question
        self.plan = plan
        self.limit = limit
        self.position = position  # in the log of changes
        self.fitting = 0
        self.failing = 0
        self.out = 0  # nodes whose steps ran out
        self.stale = -1
        self.charged = (
            0  # steps that deciding for all nodes took, or more: what was found out for nodes that changed counts
        )
        self.apart = 0
        self.answer: Fits | None = None  # the last answer
        self.problems: dict[
            Layout, AllocationProblem | Fault | None
        ] = {}  # None if evaluating the layout exceeds the steps
        self.decisions: dict[_SearchKey, tuple[AllocationDecision, int]] = {}  # with the number of steps
        self.searches: dict[_SearchKey, Searching] = {}  # unfinished searches
        self.waits: dict[int, Work] = {}  # node → the work that its decision waits for
        self.is_hard = False  # a search took long: with a turn, further searches are postponed at once
        self.content_steps: dict[DeviceList, int] = {}  # device list → steps of the plan's selectors
        self._selectors = {way.selectors for request in plan.requests for way in request.alternatives}
        self.groups: dict[int, _NodeGroup] = {}
        self.by_key: dict[tuple[object, ...], _NodeGroup] = {}
        self._touches: dict[DeviceList, bool] = {}
        self._room = LAYOUTS_KEPT

    def forget_unseen(self, by_number: Iterable[NodeDevices | None]) -> None:
        """Remove results for layouts that no node has any more, once the cache has doubled."""
        if len(self.problems) < self._room:
            return
        seen = {
            node_devices.looked.layout
            for node_devices in by_number
            if node_devices is not None and node_devices.looked is not None
        }
        contents = {part.content for layout in seen for _, part in layout.parts}
        self.problems = {layout: known for layout, known in self.problems.items() if layout in seen}
        self.decisions = {key: known for key, known in self.decisions.items() if key[0] in seen}
        self.content_steps = {content: known for content, known in self.content_steps.items() if content in contents}
        self._touches = {content: known for content, known in self._touches.items() if content in contents}
        self._room = max(LAYOUTS_KEPT, 2 * len(self.problems))

    def keep_search(self, key: _SearchKey, searching: Searching) -> None:
        """Store an unfinished search. Drops the oldest if SEARCHES_KEPT are stored."""
        if len(self.searches) >= SEARCHES_KEPT:
            del self.searches[next(iter(self.searches))]
        self.searches[key] = searching

    def touches(self, content: DeviceList, turn: Turn | None) -> bool:
        """Return whether any device of a list can affect the plan: it matches the selectors of an alternative or
        fails on them.

        Raises as `DeviceList.match` does.
        """
        found = self._touches.get(content)
        if found is None:
            matches = (
                content.match(alternative.selectors, self.limit, turn)
                for request in self.plan.requests
                for alternative in request.alternatives
            )
            found = self._touches[content] = any(match.devices or match.errors for match in matches)
        return found

    def regard(self, change: SliceChange) -> None:
        """Mark the nodes that a change affects as stale. If any device may have changed, also remove them from their
        groups.
        """
        if self.waits:
            for number in [number for number in self.waits if change.nodes >> number & 1]:
                del self.waits[number]
        if change.content is None:
            self.stale |= change.nodes
            self.apart &= ~change.nodes
            for number in positions(change.nodes):
                self._leave_group(number)
        elif self._touches.get(change.content, True):  # unknown counts as affected, because finding out can take long
            self.stale |= change.nodes & ~self.apart if self.apart else change.nodes

    def _leave_group(self, number: int) -> None:
        group = self.groups.pop(number, None)
        if group is not None:
            group.leave(number)
            if not group.size:
                del self.by_key[group.key]

    def note(self, nodes: int, verdict: _Verdict) -> None:
        """Record the result for the nodes of a bit set."""
        self.fitting = self.fitting | nodes if verdict.fits else without(self.fitting, nodes)
        self.failing = self.failing | nodes if verdict.fails else without(self.failing, nodes)
        self.out = self.out | nodes if verdict.is_out else without(self.out, nodes)

    def keep_problem(self, layout: Layout, problem: AllocationProblem | Fault | None) -> None:
        """Store the problem for a layout, and charge the steps that no other layout has been charged for."""
        self.problems[layout] = problem
        if problem is None:
            self.charged += self.limit or 0
        elif isinstance(problem, AllocationProblem):
            self.charged += problem.derived_steps
            for _, part in layout.parts:
                if part.content not in self.content_steps:
                    steps = sum(map(part.content.steps_of, self._selectors))
                    self.content_steps[part.content] = steps
                    self.charged += steps

    def bill(self, number: int, layout: Layout) -> Iterator[tuple[object, int]]:
        """Yield the steps of the decision for a node as (key, steps). Parts with equal keys are shared with other nodes.

        `layout` is used if the node is in no group.
        """
        group = self.groups.get(number)
        if group is not None and group.layout is not None:
            layout = group.layout
            yield group.search, group.steps
        problem = self.problems.get(layout, _UNPOSED)
        if problem is None:
            yield layout, self.limit or 0
        elif isinstance(problem, AllocationProblem):
            yield layout, problem.derived_steps
            for _, part in layout.parts:
                yield part.content, self.content_steps.get(part.content, 0)

    def score(self, number: int) -> int:
        """Return the score of the node with bit position `number`, or 0 if it is in no group."""
        group = self.groups.get(number)
        return 0 if group is None else group.score


class Index:
    """An allocator with cached state. It is told about changes of the cluster and asked which nodes fit.

    The order of changes does not matter. `take` and `release` are idempotent.
    """

    def __init__(self, features: Features = Features(), *, defers: bool = False) -> None:  # noqa: B008 (frozen)
        """Create an index. If `defers` is set, callers pass turns, and `left_over` returns work to do between them."""
        self.features = features
        self.defers = defers
        self._left_over: dict[Work, None] = {}
        self._is_hurried = False
        self._inventory = Inventory(features)
        self._classes: dict[str, DeviceClass] = {}
        self._entries: dict[tuple[QuestionKey, int | None], _PlanEntry] = {}
        self._forgotten = 0  # changes already dropped from the front of the log

    # Changes of the cluster.

    def upsert_slice(self, slice_: ResourceSlice) -> None:
        """Add or replace a slice, by its name."""
        self._inventory.upsert_slice(slice_)

    def remove_slice(self, name: str) -> None:
        """Remove a slice, if it exists."""
        self._inventory.remove_slice(name)

    def upsert_node(self, node: Node) -> None:
        """Add or replace a node. Its labels determine which slices it sees."""
        self._inventory.upsert_node(node)

    def remove_node(self, name: str) -> None:
        """Remove a node, if it exists."""
        self._inventory.remove_node(name)

    def upsert_class(self, class_: DeviceClass) -> None:
        """Add or replace a device class."""
        if self._classes.get(class_.metadata.name) != class_:
            self._classes[class_.metadata.name] = class_
            self._entries.clear()

    def has_class(self, name: str) -> bool:
        return name in self._classes

    def remove_class(self, name: str) -> None:
        """Remove a device class, if it exists."""
        if self._classes.pop(name, None) is not None:
            self._entries.clear()

    def take(self, devices: Iterable[tuple[str, str, str]], shares: Iterable[Share] = ()) -> None:
        """Mark devices, as (driver, pool, device), and shares as in use, whether or not they are published."""
        self._inventory.take(devices, shares)

    def release(self, devices: Iterable[tuple[str, str, str]], shares: Iterable[Share] = ()) -> None:
        """Mark devices, as (driver, pool, device), and shares as free. Those that are not in use are ignored."""
        self._inventory.release(devices, shares)

    @property
    def takes_from_nodes(self) -> bool:
        """Whether there are devices that take from their node besides themselves, and that counts.

        False if the feature is off.
        """
        return self.features.node_allocatable_resources and bool(self._inventory.taking_from_nodes)

    @property
    def skips_operations(self) -> bool:
        """Whether there are devices for which drivers are not to be called on nodes, and that counts."""
        return self.features.optional_node_operations and bool(self._inventory.skipping_operations)

    @property
    def asks_more_of_nodes(self) -> bool:
        """Whether a node must have more than devices: room for what they take, or what it takes to leave calls out."""
        return self.takes_from_nodes or self.skips_operations

    def device(self, id_: DeviceId, node: str = "") -> Device | None:
        """Return a published device, or None if no slice contains it, whether `node` sees the device or not.

        If slices contradict each other, a slice that `node` sees wins.
        """
        return self._inventory.device(id_, node)

    @property
    def taken(self) -> frozenset[DeviceId]:
        """All devices in use as a whole, so not those in use by shares only."""
        return self._inventory.taken

    @property
    def shares(self) -> frozenset[Share]:
        """All shares in use."""
        return self._inventory.shares

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, ordered by their bit positions."""
        return tuple(
            node_devices.node.metadata.name for node_devices in self._inventory.by_number if node_devices is not None
        )

    def number(self, node: str) -> int:
        """Return the bit position of a node in sets of nodes. Raises KeyError if there is no such node."""
        number = self._inventory.number(node)
        if number is None:
            raise KeyError(node)
        return number

    def equivalence_key(self, node: str) -> Hashable | None:
        """Return a key that is equal for nodes on which every claim gets the same answer.

        Such nodes have equal devices, of which the same ones are in use. Returns None for a node whose devices other
        nodes can take as well. Raises KeyError if there is no such node.
        """
        node_devices = self._inventory.node_devices(self.number(node))
        if node_devices.elsewhere or not all(
            slice_state.slice.spec.nodeName for slice_state in node_devices.slice_states
        ):
            return None
        return node_devices.view.layout, node_devices.usage()

    def cost_of(self, node: str, devices: Collection[DeviceId]) -> float:
        """Return the cost of unused hardware units of a node that these devices would begin to use (`intactness`).

        Raises KeyError if there is no such node.
        """
        return cost_of(self._inventory.node_devices(self.number(node)).slice_states, devices)

    # Questions.

    def allocate(
        self, node: str, claims: Sequence[ResourceClaim], steps: int | None = None, turn: Turn | None = None
    ) -> AllocationOutcome:
        """Allocate devices for all claims together on a node, within `steps` steps (None: no limit).

        Does not mark devices as in use: call `take` with the allocation that is kept. Returns Failed for an unknown
        node. With a turn, long computations are postponed, and the answer is `GaveUp` until they are done.
        """
        number = self._inventory.number(node)
        if number is None:
            return Failed(InputProblem(InputCode.UNKNOWN_NODE, subject=node, node_only=True))
        node_devices = self._inventory.node_devices(number)
        entry = self._entry(claims, steps)
        names = [claim_name(claim) for claim in claims]
        try:
            problem = self._problem(entry, node_devices.view.layout, turn)
            if isinstance(problem, Fault):
                return problem.failed(node_devices.view, names)
            usage = node_devices.usage()
            return conclude(self._decision(entry, problem, usage, turn), problem, usage, node_devices.view, names)
        except OutOfSteps:
            return INTERRUPTED
        except Interrupted as interrupted:
            self._leave_over(interrupted)
            return INTERRUPTED

    def fits(
        self,
        claims: Sequence[ResourceClaim],
        budget: Budget = UNLIMITED,
        among: int | None = None,
        turn: Turn | None = None,
    ) -> Fits:
        """Return which nodes, of the set `among` or of all, can serve all claims together.

        Only nodes that have changed since the last question are examined. With a turn, the rest is postponed when the
        turn is over. Intermediate results are kept, so the next call continues.
        """
        asked = self._inventory.everyone if among is None else self._inventory.everyone & among
        several = len(claims) > 1
        each = [self.fits([claim], budget.thorough(), asked, turn) for claim in claims] if several else []
        parts = [self._entry([claim], budget.node) for claim in claims] if several else []
        entry = self._entry(claims, budget.node)
        beyond = self._refresh(entry, parts, asked, budget, turn)
        together, undecided = entry.apart, (entry.stale | entry.out) & asked | beyond
        failing = entry.failing & ~(entry.stale | beyond)
        for own in each:
            undecided |= own.undecided & entry.apart
            together &= own.nodes

        fitting, last = (entry.fitting & ~entry.apart | together) & ~(entry.stale | beyond), entry.answer
        told = (fitting, failing, undecided, beyond)
        if last is not None and (last.nodes, last.failing, last.undecided, last.beyond) == told:
            return last

        def score(number: int) -> int:
            return sum(own._score(number) for own in each) if entry.apart >> number & 1 else entry.score(number)

        entry.answer = Fits(self._inventory, entry.question, fitting, failing, undecided, score, beyond)
        return entry.answer

    def _refresh(
        self, entry: _PlanEntry, parts: Sequence[_PlanEntry], asked: int, budget: Budget, turn: Turn | None
    ) -> int:
        """Decide the stale nodes among those asked for. Returns the nodes that are beyond the budget."""
        self._catch_up(entry)
        everyone = self._inventory.everyone
        entry.fitting &= everyone
        entry.failing &= everyone
        entry.out &= everyone
        least = budget.least
        left_over, beyond = dict(self._left_over), 0
        waiting = entry.stale & asked
        while waiting and (least is None or entry.charged <= least):
            seen, unsettled = self._settle_some(entry, parts, waiting, turn)
            entry.stale = without(entry.stale, seen) | unsettled
            waiting = without(waiting, seen)
            if waiting and turn is not None and turn.is_over:
                self._is_hurried = True
                break
        if least is not None and entry.charged > least:
            self._left_over = left_over
            beyond = self._settle_in_order(entry, parts, asked, budget, turn)
        if entry.apart:
            entry.failing &= ~entry.apart
            entry.out &= ~entry.apart
        return beyond

    def _settle_some(
        self, entry: _PlanEntry, parts: Sequence[_PlanEntry], waiting: int, turn: Turn | None
    ) -> tuple[int, int]:
        """Decide nodes by number, until one is decided together with its group or the turn is over.

        Returns the examined nodes and those of them that are undecided. Changing a large set copies it, so the sets
        change once for many nodes.
        """
        unsettled = 0
        for number in positions(waiting):
            nodes, is_settled = self._settle_node(entry, parts, number, turn)
            if not is_settled:
                unsettled |= nodes or 1 << number
            if nodes or (turn is not None and turn.is_over):
                return nodes | waiting & ((2 << number) - 1), unsettled
        return waiting, unsettled

    def _settle_in_order(
        self, entry: _PlanEntry, parts: Sequence[_PlanEntry], asked: int, budget: Budget, turn: Turn | None
    ) -> int:
        """Decide nodes by number, charging each for steps that no earlier node paid. Returns the nodes beyond the
        budget.

        The nodes are a bit set, 0 if the budget suffices or the turn is over before. The charges of nodes after a
        postponed node are unknown, so these nodes are examined in any case.
        """
        charged, paid, is_known = 0, set[object](), True
        fitting = 0
        for number in positions(asked & ~entry.apart):
            bit = 1 << number
            limit = budget.enough if fitting and budget.enough is not None else budget.total
            if is_known and limit is not None and charged > limit:
                return asked & ~entry.apart & ~(bit - 1)
            if entry.stale & bit:
                if turn is not None and turn.is_over:
                    self._is_hurried = True
                    return 0
                nodes, is_settled = self._settle_node(entry, parts, number, turn)
                if is_settled:
                    entry.stale = without(entry.stale, nodes | bit)
                else:
                    is_known = False
            for name, steps in entry.bill(number, self._inventory.node_devices(number).view.layout):
                if name not in paid:
                    paid.add(name)
                    charged += steps
            fitting |= entry.fitting & bit
        if is_known and not without(self._inventory.everyone, asked):
            entry.charged = charged
        return 0

    def _settle_node(
        self, entry: _PlanEntry, parts: Sequence[_PlanEntry], number: int, turn: Turn | None
    ) -> tuple[int, bool]:
        """Decide a node. Returns the nodes of its group as a bit set, and whether the decision is complete.

        The set is 0 if the node is the only member, or if no group was found for it.
        """
        node_devices, nodes = self._inventory.node_devices(number), 0
        if turn is not None:
            if (work := entry.waits.pop(number, None)) is not None and not (work.is_over or work.is_given_up):
                return self._let_wait(entry, number, work)
            turn.spend(1)
        try:
            if parts and self._apart(parts, node_devices, turn):
                entry.apart |= 1 << number
                return 0, True
            group = self._group(entry, node_devices, turn)
            nodes = group.nodes if group.size > 1 else 0
            self._settle(entry, group, node_devices, turn)
            return nodes, True
        except OutOfSteps:
            if node_devices.view.layout not in entry.problems:
                entry.keep_problem(node_devices.view.layout, None)
            entry.note(1 << number, _Verdict(is_out=True))
            return 0, True
        except Deferred as deferred:
            self._let_wait(entry, number, deferred.work)
            return nodes, False
        except Interrupted as interrupted:
            self._leave_over(interrupted)
            return nodes, False

    def _let_wait(self, entry: _PlanEntry, number: int, work: Work) -> tuple[int, bool]:
        """Postpone a node until some work is done. Returns what `_settle_node` returns for an undecided node: (0,
        False).
        """
        entry.waits[number] = work
        self._left_over[work] = None
        return 0, False

    def _apart(self, parts: Sequence[_PlanEntry], node_devices: NodeDevices, turn: Turn | None) -> bool:
        """Return whether no two claims can compete for devices of a node and none can cause an error there.

        Returns False if a pool of the node is not usable. Raises as `DeviceList.match` does.
        """
        if any(pool.state is not PoolState.USABLE for pool in node_devices.view.layout.pools):
            return False
        for contents in node_devices.together():
            if sum(any(part.touches(content, turn) for content in contents) for part in parts) > 1:
                return False
        problems = (self._problem(part, node_devices.view.layout, turn) for part in parts)
        return all(isinstance(problem, AllocationProblem) and not problem.alarming for problem in problems)

    def _settle(self, entry: _PlanEntry, group: _NodeGroup, node_devices: NodeDevices, turn: Turn | None) -> None:
        """Decide all nodes of a group. `node_devices` is one of them."""
        decision: AllocationDecision | AllocationProblem
        group.layout, group.search, group.steps = node_devices.view.layout, None, 0
        try:
            decision = self._problem(entry, group.layout, turn)
        except OutOfSteps:
            decision = Stuck(0, 0)
        if isinstance(decision, AllocationProblem):
            problem, usage = decision, node_devices.usage()
            decision = self._decision(entry, problem, usage, turn)
            if problem.simple is None:
                group.search = _search_key(problem, usage)
                group.steps = entry.decisions[group.search][1]
        group.score = _score(entry.plan, decision) if isinstance(decision, Solution) else 0
        verdict = _Verdict(isinstance(decision, Solution), isinstance(decision, Fault), isinstance(decision, Stuck))
        if verdict != group.verdict:
            entry.note(group.nodes, verdict)
            group.verdict = verdict

    def _group(self, entry: _PlanEntry, node_devices: NodeDevices, turn: Turn | None) -> _NodeGroup:
        group = entry.groups.get(node_devices.number)
        if group is None:
            key: tuple[object, ...] = (node_devices,)
            if all(pool.state is PoolState.USABLE for pool in node_devices.view.layout.pools):
                key = node_devices.dependency_key(lambda content: entry.touches(content, turn))
            group = entry.by_key.get(key)
            if group is None:
                group = entry.by_key[key] = _NodeGroup(key)
            group.join(node_devices.number)
            entry.groups[node_devices.number] = group
        return group

    # Caches.

    def _entry(self, claims: Sequence[ResourceClaim], limit: int | None) -> _PlanEntry:
        question = tuple([_encode(claim.spec.devices) for claim in claims])
        entry = self._entries.pop((question, limit), None)
        if entry is None:
            asked = plan([claim.spec.devices for claim in claims], self._classes.get, self.features)
            entry = _PlanEntry(question, asked, self._forgotten + len(self._inventory.log), limit)
            if len(self._entries) >= PLANS_KEPT:
                del self._entries[next(iter(self._entries))]
        self._entries[question, limit] = entry
        return entry

    def _problem(self, entry: _PlanEntry, layout: Layout, turn: Turn | None) -> AllocationProblem | Fault:
        problem = entry.problems.get(layout, _UNPOSED)
        if problem is _UNPOSED:
            try:
                problem = pose(entry.plan, layout, self.features, entry.limit, turn)
            except OutOfSteps:
                problem = None
            entry.forget_unseen(self._inventory.by_number)
            entry.keep_problem(layout, problem)
        if problem is None:
            raise OutOfSteps
        return problem

    def _decision(
        self, entry: _PlanEntry, problem: AllocationProblem, usage: NodeUsage, turn: Turn | None
    ) -> AllocationDecision:
        if problem.simple is not None:
            return decide(problem, usage, StepMeter())
        key = _search_key(problem, usage)
        known = entry.decisions.get(key)
        if known is not None:
            return known[0]
        searching = entry.searches.pop(key, None)
        if searching is None or (searching.is_in_worker_process and turn is None):
            searching = Searching(problem, usage, left_of(entry.limit, problem.steps))
        self._search(entry, searching, turn)
        if not searching.is_over and not searching.is_given_up:
            entry.is_hard = True
            entry.keep_search(key, searching)
            raise Deferred(searching)
        if len(entry.decisions) >= DECISIONS_KEPT:
            entry.decisions.clear()
        entry.decisions[key] = searching.decision, searching.steps
        entry.charged += searching.steps
        return searching.decision

    def _search(self, entry: _PlanEntry, searching: Searching, turn: Turn | None) -> None:
        """Continue a search as far as that is possible in this process now."""
        if searching.is_over or searching.is_given_up or searching.is_in_worker_process:
            return
        if turn is None:
            searching.run(None)
        elif not entry.is_hard:
            searching.run_quickly(QUICK_SEARCH)
            turn.spend(searching.steps)

    def _leave_over(self, interrupted: Interrupted) -> None:
        if isinstance(interrupted, Deferred):
            self._left_over[interrupted.work] = None
        else:
            self._is_hurried = True

    def left_over(self) -> LeftOver:
        """Return the work that questions since the last call wait for, and forget it. Empty unless the index defers."""
        if not self._left_over and not self._is_hurried:  # the usual case, and called twice for each pod
            return _NOTHING_LEFT_OVER
        found = LeftOver(tuple(self._left_over), self._is_hurried)
        self._left_over, self._is_hurried = {}, False
        return found

    def _catch_up(self, entry: _PlanEntry) -> None:
        """Apply the log of changes to a plan. If the log is long, apply it to all plans and clear it."""
        log = self._inventory.log
        late = self._entries.values() if len(log) >= LOG_KEPT else (entry,)
        for each in late:
            for change in log[each.position - self._forgotten :]:
                each.regard(change)
            each.position = self._forgotten + len(log)
        if len(log) >= LOG_KEPT:
            self._forgotten += len(log)
            log.clear()


def _search_key(problem: AllocationProblem, usage: NodeUsage) -> _SearchKey:
    return problem.layout, replace(usage, taken=usage.taken & problem.relevant)


def _score(asked: AllocationPlan, solution: Solution) -> int:
    pairs = zip(asked.requests, solution.grants, strict=True)
    return score((tuple(grant.choice if request.prioritized else None for request, grant in pairs),))
