"""The rule DynamicResources: which nodes can serve the claims of a pod, and why the others cannot.

An allocated claim restricts the pod to nodes that can reach its devices. Claims without an allocation need free
devices, all on one node. Left out: the search for devices (`dray.allocator`), and which claims a pod may use
(`dray.api.claim_access`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import is_not

from dray.allocator import UNLIMITED, Budget, Failed, Fits, Index, Turn, Unallocatable
from dray.allocator.bits import without
from dray.allocator.budget import StepMeter
from dray.api import podclaims
from dray.api.allocations import node_of
from dray.api.claim_access import PodClaims, is_within_reach
from dray.api.extended_resources import ExtendedResources
from dray.api.gates import OPTIONAL_OPERATIONS
from dray.api.reasons.devices import InputProblem, Reasons
from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.api.types.core import NodeSelector
from dray.api.types.resource import AllocationResult, DeviceClass, ResourceClaim
from dray.verdicts.demand import Candidate, containers_demand
from dray.verdicts.node_resources import NodeClaims, amounts_of, is_mapped, node_claims, uncovered, with_claims
from dray.verdicts.node_rules import NodeRefusal
from dray.verdicts.nodes import NodeInfo, NodeTable

SELECTORS_KEPT = 256  # different selectors of shared allocations at a time
_NONE: frozenset[str] = frozenset()
COMPARED = 100  # nodes among which the nearest one is looked for
COMPARED_STEPS = 200  # that may go into it


@dataclass(slots=True)
class Search:
    """The nodes that the allocator was asked about for some claims, and its answer."""

    pending: Sequence[ResourceClaim]
    asked: int
    fits: Fits
    budget: Budget = UNLIMITED


@dataclass(slots=True, eq=False)
class DeviceVerdict:
    """Result of the rule for a set of nodes."""

    refused: list[NodeRefusal] = field(default_factory=list)
    elsewhere: list[ResourceClaim] = field(default_factory=list)  # allocated claims that keep the pod from a node
    searches: list[Search] = field(default_factory=list)
    wrong: InputProblem | None = None  # wrong input that no other node makes right

    @property
    def undecided(self) -> int:
        """Set of the nodes that the search did not decide, because its steps ran out or it was interrupted."""
        nodes = 0
        for search in self.searches:
            nodes |= search.asked & search.fits.undecided
        return nodes

    def search_at(self, position: int) -> Search | None:
        """Return the search that asked about the node at a position, or None if none did."""
        for search in self.searches:
            if search.asked >> position & 1:
                return search
        return None

    def pending_at(self, position: int) -> Sequence[ResourceClaim]:
        """Return the claims that would have to be allocated on the node at a position, empty if none."""
        search = self.search_at(position)
        return search.pending if search is not None else ()


NOTHING_ASKED = DeviceVerdict()  # for pods without claims; one shared object that must not be changed


class DeviceRule:
    """The rule DynamicResources on the current nodes and devices."""

    def __init__(self, index: Index, table: NodeTable, *, serves_extended: bool = True) -> None:
        self.index = index
        self.extended = ExtendedResources()
        self._serves_extended = serves_extended
        self._table = table
        self._matching = MatchingNodes(table)
        self._nearest: tuple[tuple[Fits, ...], int, int] = (), 0, 0  # answers, the nodes that they refused, the nearest

    def upsert_class(self, class_: DeviceClass) -> bool:
        """Add or replace a class. Returns whether this changes which extended resources DRA devices provide.

        Returns False if DRA devices do not provide extended resources at all.
        """
        self.index.upsert_class(class_)
        return self._serves_extended and self.extended.upsert(class_)

    def remove_class(self, name: str) -> bool:
        self.index.remove_class(name)
        return self._serves_extended and self.extended.remove(name)

    def judge(
        self,
        pod: Candidate,
        claims: PodClaims,
        nodes: int,
        budget: Budget = UNLIMITED,
        *,
        thorough: bool = False,
        turn: Turn | None = None,
    ) -> DeviceVerdict:
        """Decide which nodes of a set can serve the claims of a pod.

        Unless `thorough` is set, a node that cannot serve one claim is not asked about the others, and invalid input
        ends the search. With a turn, long computations are postponed (`Index.left_over`).
        """
        verdict = DeviceVerdict()
        asking = budget.thorough() if thorough else budget
        left = nodes
        for claim in claims.allocated:
            is_lost = claim in claims.lost
            if bad := nodes & ~(0 if is_lost else self._reachable(claim)):
                code = NodeCode.CLAIM_LOST if is_lost else NodeCode.CLAIM_ELSEWHERE
                verdict.elsewhere.append(claim)
                verdict.refused.append((NodeReason(code, claim.metadata.name), bad))
                left &= ~bad
        for name in self._shared_by_pods(claims):
            verdict.refused.append((NodeReason(NodeCode.NODE_CLAIM_SHARED, name), nodes))
            left = 0
        if claims.left_over is not None:
            verdict.refused.append((NodeReason(NodeCode.EXTENDED_LEFT_OVER, claims.left_over.metadata.name), nodes))
            return verdict
        for reason, bad in self._unknown(pod, nodes):
            verdict.refused.append((reason, bad))
            left &= ~bad
        for resources, asked in self._groups(pod, nodes if thorough else left):
            pending = [*claims.pending, pod.extended_resource_claim(resources)] if resources else claims.pending
            if pending and (thorough or verdict.wrong is None):
                self._judge_pending(pending, asked, verdict, asking, turn, thorough=thorough)
        return verdict

    def from_node(
        self, pod: Candidate, claims: PodClaims, info: NodeInfo, promised: Mapping[str, AllocationResult]
    ) -> NodeClaims | NodeReason:
        """Return the node resources that the pod's devices consume, or the reason why the node lacks them.

        `promised` contains the allocations that claims will get, by claim name. The result is () if the devices
        consume none.
        """
        if not self.index.asks_more_of_nodes:
            return ()
        known = {claim.metadata.name: claim.status.allocation for claim in claims.allocated}
        allocations = {name: one for name, one in {**known, **promised}.items() if one is not None}
        if self.index.skips_operations and self._cannot_skip(info, allocations.values()):
            return NodeReason(NodeCode.LACKS_FEATURE, OPTIONAL_OPERATIONS)
        if not self.index.takes_from_nodes:
            return ()
        uses = podclaims.uses_of(pod.pod, claims.group)
        taken = node_claims(pod.pod, uses, allocations, partial(self.index.device, node=info.name))
        if short := uncovered(pod.pod, containers_demand(pod.pod), taken):
            return NodeReason(NodeCode.POD_REQUEST_SHORT, short)
        wanted = with_claims(pod.pod, pod.demand, taken).amounts
        for name in amounts_of(taken):
            if wanted.get(name, 0) > (free := info.free(name)):
                return NodeReason(NodeCode.DEVICES_INSUFFICIENT, name, wanted=wanted[name], found=free)
        return taken

    def _cannot_skip(self, info: NodeInfo, allocations: Iterable[AllocationResult]) -> bool:
        """Return whether an allocation skips node operations that this node does not know how to skip."""
        declared = info.node.status.declaredFeatures if info.node is not None else ()
        return OPTIONAL_OPERATIONS not in declared and any(
            result.skipNodeOperations for one in allocations for result in one.devices.results
        )

    def _shared_by_pods(self, claims: PodClaims) -> Iterator[str]:
        """Yield names of claims whose devices are mapped to node resources and that another pod has reserved."""
        for claim in claims.allocated if self.index.takes_from_nodes else ():
            others = [one for one in claim.status.reservedFor if one.uid != claims.pod.metadata.uid]
            if others and is_mapped(claim.status.allocation, self.index.device):
                yield claim.metadata.name

    def _unknown(self, pod: Candidate, nodes: int) -> Iterator[NodeRefusal]:
        """Yield nodes without an extended resource that neither a device class nor a device plugin there provides.

        Yields nothing unless device classes provide another extended resource of the pod.
        """
        for name in pod.demand.amounts if pod.extended else ():
            if "/" in name and name not in pod.extended and (bad := nodes & ~self._table.offering.get(name, 0)):
                yield NodeReason(NodeCode.EXTENDED_UNKNOWN, name), bad

    def _groups(self, pod: Candidate, nodes: int) -> list[tuple[frozenset[str], int]]:
        """Group nodes by which of the pod's extended resources DRA devices provide there; device plugins provide the
        others.

        Each entry is (names of resources, bit set of nodes). No bit set is empty.
        """
        groups: dict[frozenset[str], int] = {_NONE: nodes}
        for name in pod.extended:
            plugins = self._table.offering.get(name, 0)
            split = [(names | {name}, asked & ~plugins) for names, asked in groups.items()]
            split += [(names, asked & plugins) for names, asked in groups.items()]
            groups = dict(split)
        return [(names, asked) for names, asked in groups.items() if asked]

    def _judge_pending(
        self,
        pending: Sequence[ResourceClaim],
        asked: int,
        verdict: DeviceVerdict,
        budget: Budget,
        turn: Turn | None,
        *,
        thorough: bool,
    ) -> None:
        fits = self.index.fits(pending, budget, asked, turn)
        verdict.searches.append(Search(pending, asked, fits, budget))
        if late := asked & fits.undecided:
            verdict.refused.append((NodeReason(NodeCode.DEVICES_TIMED_OUT), late))
        if short := without(asked, fits.nodes | fits.undecided | fits.failing):
            verdict.refused.append((NodeReason(NodeCode.CANNOT_ALLOCATE), short))
        failing = asked & fits.failing & ~fits.undecided
        for reason, bad in self._wrong(pending, failing, budget) if failing else ():
            verdict.refused.append((reason, bad))
            if reason.problem is not None and not reason.problem.node_only:
                verdict.wrong = verdict.wrong or reason.problem
                if not thorough:
                    return

    def _wrong(self, pending: Sequence[ResourceClaim], failing: int, budget: Budget) -> Iterator[NodeRefusal]:
        """Yield the nodes on which the allocator found invalid input, each with the problem.

        `failing` is the bit set of these nodes. The problem is None if the allocator gives another answer now.
        """
        for info in self._table.named(failing):
            outcome = self.index.allocate(info.name, pending, budget.node)
            problem = outcome.problem if isinstance(outcome, Failed) else None
            yield NodeReason(NodeCode.DEVICES_WRONG, problem=problem), 1 << info.position

    def _reachable(self, claim: ResourceClaim) -> int:
        """Return the set of nodes that can reach the devices of an allocated claim.

        That is every node if the allocation has no node selector, and 0 if the only node does not exist.
        """
        allocation = claim.status.allocation
        if allocation is None or allocation.nodeSelector is None:
            return self._table.everyone
        name = node_of(allocation)
        if name:
            info = self._table.get(name)
            return 1 << info.position if info is not None and info.node is not None else 0
        return self._matching.nodes(allocation)

    def nearest(self, verdict: DeviceVerdict) -> Reasons | None:
        """Explain the shortage of devices on the node that came closest to serving the pod.

        Returns None if no node is known to be short of devices. Pods that were refused by the same answers of the
        allocator have the same closest node, so it is cached. In a large cluster only the first nodes are compared,
        as many as a small budget of steps allows.
        """
        short = sum(bad for reason, bad in verdict.refused if reason.code is NodeCode.CANNOT_ALLOCATE)
        answers = tuple(search.fits for search in verdict.searches)
        known, refused, position = self._nearest
        if len(known) != len(answers) or any(map(is_not, known, answers)) or refused != short:
            position = self._find_nearest(verdict, short)
            self._nearest = answers, short, position
        info = self._table.infos[position] if short else None
        if info is None or (search := verdict.search_at(position)) is None:
            return None
        return self.shortage(info.name, search, StepMeter(COMPARED_STEPS))

    def _find_nearest(self, verdict: DeviceVerdict, nodes: int) -> int:
        best, closest = 0, (-1, -1)
        meter = StepMeter(COMPARED_STEPS)
        for info in islice(self._table.named(nodes), COMPARED):
            search = verdict.search_at(info.position)
            reasons = self.shortage(info.name, search, meter) if search is not None else None
            if reasons is not None and (came := progress(reasons)) > closest:
                best, closest = info.position, came
            if meter.is_out:
                break
        return best

    def shortage(self, node: str, search: Search, meter: StepMeter) -> Reasons | None:
        """Return which requests lack devices on a node, or None if the allocator gives any other answer now.

        Reasons that take more steps than `meter` allows are missing.
        """
        turn = Turn() if self.index.defers else None
        outcome = self.index.allocate(node, search.pending, search.budget.node, turn)
        return outcome.explain(meter) if isinstance(outcome, Unallocatable) else None


def progress(reasons: Reasons) -> tuple[int, int]:
    """Return how close a node came to serving its claims, as a key for comparison.

    The key is the filter step at which the first unserved request lost its devices, and the number of devices left
    there. A node that only waits for a pool to become complete compares as closer than all others.
    """
    blamed = reasons.lacking
    if blamed is None:
        return 1001, 0
    if any(pool.suffices for pool in reasons.pools):
        return 1000, 0
    return max((a.steps.index(a.lost_at), a.lost_at.devices) for a in blamed.alternatives)


class MatchingNodes:
    """Caches which nodes match the node selectors of allocations, until a node changes."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._seen = -1
        self._sets: dict[NodeSelector, int] = {}

    def nodes(self, allocation: AllocationResult) -> int:
        selector = allocation.nodeSelector
        assert selector is not None  # without one, every node matches
        if self._seen != self._table.object_changes.end or len(self._sets) >= SELECTORS_KEPT:
            self._sets.clear()
            self._seen = self._table.object_changes.end
        found = self._sets.get(selector)
        if found is None:
            found = self._sets[selector] = sum(
                1 << info.position
                for info in self._table
                if info.node and is_within_reach(allocation, info.name, info.node.metadata.labels)
            )
        return found
