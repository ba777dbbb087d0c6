"""The allocator for a scheduler: the same answers as `allocate`, from state that is kept warm.

Nothing is computed twice. Claims with equal specs share one plan; a plan is matched once for every layout; a decision
is remembered for what is taken of the devices that matter. Which nodes fit is a bit set for each plan, and a change
makes only those nodes be looked at again that see it and to which it can matter. Nodes that see the very same devices
for a plan, as with a network-attached pool, are decided together, and claims that cannot want the same devices apart.
Not thread-safe. Left out: watching the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from dray.allocator.allocation import INTERRUPTED, Decision, Searching, claim_name, conclude, decide
from dray.allocator.bits import positions, without
from dray.allocator.budget import QUICK_SEARCH, UNLIMITED, Budget, OutOfSteps, StepMeter, Turn, left_of
from dray.allocator.content import DeviceList
from dray.allocator.faults import Fault
from dray.allocator.identity import Features
from dray.allocator.intactness import cost_of
from dray.allocator.inventory import Inventory, NodeDevices, SliceChange
from dray.allocator.layout import Layout
from dray.allocator.outcome import Failed, Outcome, score
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

PLANS_KEPT = 256  # different specs in flight at a time; the one not asked about for longest is forgotten first
DECISIONS_KEPT = 16384  # for one plan; forgotten all at once
SEARCHES_KEPT = 16384  # for one plan, that are not over: one for each node
LAYOUTS_KEPT = 64  # for one plan, before those are looked for that no node has any more
LOG_KEPT = 8192  # changes waiting for plans that nobody asks about

_encode = msgspec.msgpack.Encoder().encode
_NOTHING_LEFT_OVER = LeftOver((), False)
_UNPOSED = Fault(InputProblem(InputCode.UNKNOWN_NODE), 0)  # no problem: nobody has looked yet

Question = tuple[bytes, ...]  # what claims ask for; the same for claims with equal specs


class Fits:
    """Which nodes can serve some claims, as of when it was asked.

    One answer is one object: whoever asks the same again before it changes gets the same. Iterates over the names of
    the nodes that fit. `nodes`, `failing` and `undecided` are bit sets over node numbers: those that fit, those where
    the input is wrong (ask `Index.allocate` for the error), and those for which the steps were not enough, or which are
    left over (`Index.left_over`); `beyond` are those of them that were not looked at. `question` is the same for claims
    that ask for the same.
    """

    def __init__(
        self,
        inventory: Inventory,
        question: Question,
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
        """The same answer but for one node, which does not fit."""
        rest = self.nodes & ~(1 << number)
        return Fits(self._inventory, self.question, rest, self.failing, self.undecided, self._score, self.beyond)

    def names(self, nodes: int) -> Iterator[str]:
        """The names of the nodes in a bit set."""
        by_number = self._inventory.by_number
        for number in positions(nodes):
            node_devices = by_number[number]
            if node_devices is not None:
                yield node_devices.node.metadata.name

    def score(self, node: str) -> int:
        """How well the alternatives that a node would give are preferred: eight less the index, summed; 0 if unfit."""
        number = self._inventory.number(node)
        return 0 if number is None or not self.nodes >> number & 1 else self._score(number)


_SearchKey = tuple[Layout, NodeUsage]


class _Verdict(NamedTuple):
    """What is known of a node: it fits, its input is wrong, or its steps were not enough. None of these: it does not fit."""

    fits: bool = False
    fails: bool = False
    is_out: bool = False


class _NodeGroup:
    """Nodes to which the same devices matter, and what was decided for them."""

    __slots__ = ("key", "layout", "nodes", "score", "search", "size", "steps", "verdict")

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key
        self.nodes = 0
        self.size = 0
        self.score = 0
        self.verdict: _Verdict | None = None  # None while it does not hold for all of them
        self.layout: Layout | None = None  # of one of them, and the search there: what deciding for them took
        self.search: _SearchKey | None = None
        self.steps = 0  # that the search took

    def join(self, number: int) -> None:
        self.nodes |= 1 << number
        self.size += 1
        self.verdict = None

    def leave(self, number: int) -> None:
        self.nodes &= ~(1 << number)
        self.size -= 1


class _PlanEntry:
    """All that is known about one plan, where each node may take `limit` steps.

    On nodes that are `apart`, its claims do not meet and are looked at one by one.
    """

    def __init__(self, question: Question, plan: AllocationPlan, position: int, limit: int | None) -> None:
        self.question = question
        self.plan = plan
        self.limit = limit
        self.position = position  # in the log of changes
        self.fitting = 0
        self.failing = 0
        self.out = 0  # nodes that take more steps than they may
        self.stale = -1
        self.charged = (
            0  # steps that deciding for all nodes took, or more: what was found out for nodes that changed counts
        )
        self.apart = 0
        self.answer: Fits | None = None  # the last one given
        self.problems: dict[Layout, AllocationProblem | Fault | None] = {}  # None where that takes too many steps
        self.decisions: dict[_SearchKey, tuple[Decision, int]] = {}  # with the steps that they took
        self.searches: dict[_SearchKey, Searching] = {}  # those that are not over
        self.waits: dict[int, Work] = {}  # by node, what it was left over for
        self.is_hard = False  # a search was not over quickly: with a turn, the next ones are not begun
        self.content_steps: dict[DeviceList, int] = {}  # that selectors took, by the contents of problems
        self._selectors = {way.selectors for request in plan.requests for way in request.alternatives}
        self.groups: dict[int, _NodeGroup] = {}
        self.by_key: dict[tuple[object, ...], _NodeGroup] = {}
        self._touches: dict[DeviceList, bool] = {}
        self._room = LAYOUTS_KEPT

    def forget_unseen(self, by_number: Iterable[NodeDevices | None]) -> None:
        """Forget what was found out about layouts that no node has any more, once they may be half of all."""
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
        """Keep a search that is not over."""
        if len(self.searches) >= SEARCHES_KEPT:
            del self.searches[next(iter(self.searches))]
        self.searches[key] = searching

    def touches(self, content: DeviceList, turn: Turn | None) -> bool:
        """Whether any device of a content can matter to the plan."""
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
        """Let a change make nodes stale; where anything may have changed, also forget which devices matter there."""
        if self.waits:
            for number in [number for number in self.waits if change.nodes >> number & 1]:
                del self.waits[number]
        if change.content is None:
            self.stale |= change.nodes
            self.apart &= ~change.nodes
            for number in positions(change.nodes):
                self._leave_group(number)
        elif self._touches.get(change.content, True):  # to find it out here could take long
            self.stale |= change.nodes & ~self.apart if self.apart else change.nodes

    def _leave_group(self, number: int) -> None:
        group = self.groups.pop(number, None)
        if group is not None:
            group.leave(number)
            if not group.size:
                del self.by_key[group.key]

    def note(self, nodes: int, verdict: _Verdict) -> None:
        """Note what was decided for some nodes."""
        self.fitting = self.fitting | nodes if verdict.fits else without(self.fitting, nodes)
        self.failing = self.failing | nodes if verdict.fails else without(self.failing, nodes)
        self.out = self.out | nodes if verdict.is_out else without(self.out, nodes)

    def keep_problem(self, layout: Layout, problem: AllocationProblem | Fault | None) -> None:
        """Keep what a layout makes of the plan, and count the steps of it that no other layout took."""
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
        """What deciding for a node took, part by part; parts with equal names are shared with other nodes.

        Where the node is in no group, `layout` is what it sees.
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
        """The preference of a node that was settled."""
        group = self.groups.get(number)
        return 0 if group is None else group.score


class Index:
    """Allocation with memory. Feed it the cluster, ask it what fits and for allocations, tell it what was taken.

    Order of feeding does not matter. `take` and `release` are idempotent.
    """

    def __init__(self, features: Features = Features(), *, defers: bool = False) -> None:  # noqa: B008 (frozen)
        """One that `defers` is to be asked in turns; `left_over` tells what is to be done between them."""
        self.features = features
        self.defers = defers
        self._left_over: dict[Work, None] = {}
        self._is_hurried = False
        self._inventory = Inventory(features)
        self._classes: dict[str, DeviceClass] = {}
        self._entries: dict[tuple[Question, int | None], _PlanEntry] = {}
        self._forgotten = 0  # changes already dropped from the front of the log

    # What the cluster has.

    def upsert_slice(self, slice_: ResourceSlice) -> None:
        """Add a slice or replace the one of the same name."""
        self._inventory.upsert_slice(slice_)

    def remove_slice(self, name: str) -> None:
        """Forget a slice."""
        self._inventory.remove_slice(name)

    def upsert_node(self, node: Node) -> None:
        """Add a node or replace the one of the same name; its labels decide which slices it sees."""
        self._inventory.upsert_node(node)

    def remove_node(self, name: str) -> None:
        """Forget a node."""
        self._inventory.remove_node(name)

    def upsert_class(self, class_: DeviceClass) -> None:
        """Add a class or replace the one of the same name."""
        if self._classes.get(class_.metadata.name) != class_:
            self._classes[class_.metadata.name] = class_
            self._entries.clear()

    def has_class(self, name: str) -> bool:
        return name in self._classes

    def remove_class(self, name: str) -> None:
        """Forget a class."""
        if self._classes.pop(name, None) is not None:
            self._entries.clear()

    def take(self, devices: Iterable[tuple[str, str, str]], shares: Iterable[Share] = ()) -> None:
        """Mark devices and shares as in use; they need not be published yet."""
        self._inventory.take(devices, shares)

    def release(self, devices: Iterable[tuple[str, str, str]], shares: Iterable[Share] = ()) -> None:
        """Mark devices and shares as free."""
        self._inventory.release(devices, shares)

    @property
    def takes_from_nodes(self) -> bool:
        """Whether there are devices that take from their node besides themselves, and that counts."""
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
        """A device as it is published, for a node where one is given; None where it is not."""
        return self._inventory.device(id_, node)

    @property
    def taken(self) -> frozenset[DeviceId]:
        """All devices in use as a whole."""
        return self._inventory.taken

    @property
    def shares(self) -> frozenset[Share]:
        """All shares in use."""
        return self._inventory.shares

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes."""
        return tuple(
            node_devices.node.metadata.name for node_devices in self._inventory.by_number if node_devices is not None
        )

    def number(self, node: str) -> int:
        """The number under which a known node appears in bit sets; it keeps it until it is removed."""
        number = self._inventory.number(node)
        if number is None:
            raise KeyError(node)
        return number

    def equivalence_key(self, node: str) -> Hashable | None:
        """Return a key that is equal for nodes on which every claim gets the same answer.

        Such nodes have equal devices, of which the same ones are in use. Returns None for a node whose devices other nodes
        can take as well.
        """
        node_devices = self._inventory.node_devices(self.number(node))
        if node_devices.elsewhere or not all(
            slice_state.slice.spec.nodeName for slice_state in node_devices.slice_states
        ):
            return None
        return node_devices.view.layout, node_devices.usage()

    def cost_of(self, node: str, devices: Collection[DeviceId]) -> float:
        """How much of a node that is unused so far these devices would begin to use (`intactness.cost_of`)."""
        return cost_of(self._inventory.node_devices(self.number(node)).slice_states, devices)

    # What can be had.

    def allocate(
        self, node: str, claims: Sequence[ResourceClaim], steps: int | None = None, turn: Turn | None = None
    ) -> Outcome:
        """Serve all claims together on a node within so many steps. Takes nothing: call `take` with what is kept.

        With a turn, what takes long is left over, and the answer is `GaveUp` until it is done.
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
        """Which nodes, of the set `among` or of all, can serve all claims together.

        Only nodes that changed since the last question are looked at. With a turn, what is not done when it is over is
        left over; what was found out is kept, and who asks again gets on.
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
        """Settle the nodes among those asked for that something has happened to. Answers those beyond the budget."""
        self._catch_up(entry)
        everyone = self._inventory.everyone
        entry.fitting &= everyone
        entry.failing &= everyone
        entry.out &= everyone
        least = min((steps for steps in (budget.total, budget.enough) if steps is not None), default=None)
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
        """Look at nodes by number, up to one that is settled together with others, or until the turn is over.

        Answers which were looked at, and those of them that are not settled. To change a set of thousands of nodes is
        to copy it, so that is not done for every node.
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
        """Settle nodes by number and charge each for what those before it did not pay; answers those beyond the budget.

        A node that is left over hides what those after it would be charged with, so these are looked at in any case.
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
        """Decide for a node: the set of nodes of its group where there are others in it, and whether that is done."""
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
        """Leave a node over for some work; no turn goes into it before that is done."""
        entry.waits[number] = work
        self._left_over[work] = None
        return 0, False

    def _apart(self, parts: Sequence[_PlanEntry], node_devices: NodeDevices, turn: Turn | None) -> bool:
        """Whether no two claims can want the same devices of a node, nor any of them run into an error there."""
        if any(pool.state is not PoolState.USABLE for pool in node_devices.view.layout.pools):
            return False
        for contents in node_devices.together():
            if sum(any(part.touches(content, turn) for content in contents) for part in parts) > 1:
                return False
        problems = (self._problem(part, node_devices.view.layout, turn) for part in parts)
        return all(isinstance(problem, AllocationProblem) and not problem.alarming for problem in problems)

    def _settle(self, entry: _PlanEntry, group: _NodeGroup, node_devices: NodeDevices, turn: Turn | None) -> None:
        """Decide for the nodes of a group, of which `node_devices` is one."""
        decision: Decision | AllocationProblem
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

    # Memory.

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

    def _decision(self, entry: _PlanEntry, problem: AllocationProblem, usage: NodeUsage, turn: Turn | None) -> Decision:
        if problem.simple is not None:
            return decide(problem, usage, StepMeter())
        key = _search_key(problem, usage)
        known = entry.decisions.get(key)
        if known is not None:
            return known[0]
        searching = entry.searches.pop(key, None)
        if searching is None or (searching.is_elsewhere and turn is None):
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
        """Go on with a search as far as that is done here."""
        if searching.is_over or searching.is_given_up or searching.is_elsewhere:
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
        """What kept questions since the last call from being answered, by an index that defers."""
        if not self._left_over and not self._is_hurried:  # as nearly always, and asked twice for each pod
            return _NOTHING_LEFT_OVER
        found = LeftOver(tuple(self._left_over), self._is_hurried)
        self._left_over, self._is_hurried = {}, False
        return found

    def _catch_up(self, entry: _PlanEntry) -> None:
        """Let a plan take note of what happened; once the log is long, let all of them, and start a new one."""
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
