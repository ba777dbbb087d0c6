"""DynamicResources: which nodes can give a pod the devices of its claims, and how the claims get them.

Follows a claim from "not there yet" to "allocated and reserved for this pod". The index of the allocator knows which
devices are free; what this scheduler has promised but not yet written counts as taken. No API call happens in a
scheduling cycle; writing is `binding`'s part. Left out: the search for devices (`dray.allocator`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.allocator import Allocated, DeviceId, Failed, Fits, GaveUp, Index, Unallocatable
from dray.api import podclaims
from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing
from dray.api.selectors import node_selector_matches
from dray.api.types.core import NodeSelector, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client import Informer
from dray.scheduler.nodes import NodeInfo, NodeTable

NAME = "DynamicResources"
CANNOT_ALLOCATE = "cannot allocate all claims"
ELSEWHERE = "resourceclaim not available on the node"
TIMED_OUT = "timed out trying to allocate devices"
THINKING = 0.25  # seconds that may go into a search for devices before others in this process get a turn
SELECTORS_KEPT = 256  # different selectors of shared allocations at a time


class Refusal(Exception):
    """No node will do before something changes; the text is for the pod's condition."""


class Thinking(Exception):
    """There was not enough time to find out; what was found out is kept, so asking again gets on."""


class Wrong(Exception):
    """What the claims or the devices say is wrong, whatever the node: a selector fails, a class is missing."""


class ClaimUse(msgspec.Struct, frozen=True):
    """A claim of the pod, with how the pod comes to it."""

    claim: ResourceClaim
    by_group: bool


@dataclass
class PodClaims:
    """What one attempt knows of the pod's claims."""

    pod: Pod
    group: PodGroup | None = None
    uses: list[ClaimUse] = field(default_factory=list)
    pending: list[ResourceClaim] = field(default_factory=list)  # to be allocated, in the order of the pod's entries
    allocated: list[ResourceClaim] = field(default_factory=list)
    elsewhere: list[ResourceClaim] = field(default_factory=list)  # allocated ones that kept a node from being chosen
    thought: float = 0.0  # seconds that went into earlier parts of the attempt
    asked: int = 0  # the nodes that came into question for the pending ones
    fits: Fits | None = None  # which of those can serve them

    def through(self, use: ClaimUse) -> PodGroup | None:
        """The group, where the pod comes to a claim through it."""
        return self.group if use.by_group else None


class Promise(msgspec.Struct, frozen=True):
    """What a pod was promised on a node: for each pending claim, its allocation."""

    claims: PodClaims
    node: str
    outcome: Allocated | None

    def allocation_of(self, claim: ResourceClaim) -> dict[str, Any] | None:
        for pending, result in zip(self.claims.pending, self.outcome.results if self.outcome else (), strict=True):
            if pending.metadata.uid == claim.metadata.uid:
                return result
        return None


class DeviceLedger:
    """Which claim holds which devices: what the claims say, and what was promised but is not written yet.

    Two claims may hold a device here for a while: another scheduler wrote what this one has promised too. It is free
    when the last of them lets go. A promise ends with the news of the claim that has the devices; as that may be skipped
    where a watch starts over, it also ends with news of a claim without devices that is younger than what was written.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._written: dict[str, tuple[DeviceId, ...]] = {}
        self._promised: dict[str, tuple[DeviceId, ...]] = {}
        self._kept: dict[str, int] = {}  # promises that were written: the version of the claim
        self._shared: Counter[DeviceId] = Counter()  # further holders of a device, beyond the first
        self._taken: set[DeviceId] = set()

    def written(self, uid: str, devices: tuple[DeviceId, ...] | None, version: int = 0) -> bool:
        """What the API server says a claim holds, None while it is not allocated; True when devices became free."""
        before = self._held(uid)
        if devices is None:
            self._written.pop(uid, None)
            if uid in self._kept and version >= self._kept[uid]:
                self._end_promise(uid)
        else:
            self._written[uid] = devices
            self._end_promise(uid)
        return self._settle(before, self._held(uid))

    def kept(self, uid: str, version: int) -> None:
        """An open promise was written; the news of it may still be on its way, or never come."""
        self._kept[uid] = version

    def promise(self, uid: str, devices: tuple[DeviceId, ...]) -> None:
        before = self._held(uid)
        self._promised[uid] = devices
        self._settle(before, self._held(uid))

    def forget(self, uid: str) -> bool:
        """Take a promise back that was not written; True when devices became free."""
        before = self._held(uid)
        self._end_promise(uid)
        return self._settle(before, self._held(uid))

    def _end_promise(self, uid: str) -> None:
        self._promised.pop(uid, None)
        self._kept.pop(uid, None)

    def is_promised(self, uid: str) -> bool:
        return uid in self._promised

    def _held(self, uid: str) -> tuple[DeviceId, ...]:
        return self._promised.get(uid) or self._written.get(uid, ())

    def _settle(self, before: tuple[DeviceId, ...], after: tuple[DeviceId, ...]) -> bool:
        if before == after:
            return False
        freed = [device for device in set(before).difference(after) if self._let_go(device)]
        taken = [device for device in set(after).difference(before) if self._take(device)]
        self._index.release(freed)
        self._index.take(taken)
        return bool(freed)

    def _take(self, device: DeviceId) -> bool:
        """Note one more holder; whether it is the first."""
        if device in self._taken:
            self._shared[device] += 1
            return False
        self._taken.add(device)
        return True

    def _let_go(self, device: DeviceId) -> bool:
        """Note one holder less; whether it was the last."""
        if self._shared[device] > 0:
            self._shared[device] -= 1
            return False
        del self._shared[device]
        self._taken.discard(device)
        return True


class Devices:
    """The rule about devices, with the state it needs."""

    def __init__(
        self,
        index: Index,
        claims: Informer[ResourceClaim],
        group_of: Callable[[Pod], PodGroup | None],
        table: NodeTable,
        gates: FeatureGates,
        now: Callable[[], float],
    ) -> None:
        self._now = now
        self.index = index
        self.ledger = DeviceLedger(index)
        self._claims = claims
        self._group_of = group_of
        self._table = table
        self._gates = gates
        self.sharing = Sharing.of(gates)
        self._kept = KeptNodes(table)

    # -- before a cycle

    def gate(self, pod: Pod) -> str:
        """Why a pod may not be tried yet: a claim that does not exist. Empty when it may."""
        try:
            self._uses(pod)
        except Refusal as refusal:
            return str(refusal)
        return ""

    def prepare(self, pod: Pod) -> PodClaims:
        """Collect the pod's claims and judge what does not depend on a node."""
        state = self._uses(pod)
        for use in state.uses:
            claim = use.claim
            if claim.metadata.deletionTimestamp is not None and claim.status.allocation is None:
                raise Refusal(f'resourceclaim "{claim.metadata.name}" is being deleted')
            if self.ledger.is_promised(claim.metadata.uid):
                raise Refusal("resourceclaim is in the process of being allocated")
            if claim.status.allocation is None:
                if not any(claim is known for known in state.pending):
                    self._check_classes(claim)
                    state.pending.append(claim)
                continue
            state.allocated.append(claim)
            self._check_room(state, use)
        return state

    def _check_classes(self, claim: ResourceClaim) -> None:
        for request in claim.spec.devices.requests or ():
            named = [(request.name, request.exactly.deviceClassName)] if request.exactly is not None else []
            named += [(f"{request.name}/{sub.name}", sub.deviceClassName) for sub in request.firstAvailable]
            for name, class_ in named:
                if not self.index.has_class(class_):
                    raise Refusal(f"request {name}: device class {class_} does not exist")

    def _check_room(self, state: PodClaims, use: ClaimUse) -> None:
        claim = use.claim
        if podclaims.consumer_to_add(claim, state.pod, state.through(use), self.sharing) is None:
            return
        if claim.metadata.deletionTimestamp is not None:
            raise Refusal(f'resourceclaim "{claim.metadata.name}" is being deleted')
        if len(claim.status.reservedFor) >= podclaims.RESERVATIONS_LIMIT:
            raise Refusal(
                f'resourceclaim "{claim.metadata.name}" is in use by {podclaims.RESERVATIONS_LIMIT} consumers, no more can be added'
            )

    def _uses(self, pod: Pod) -> PodClaims:
        state = PodClaims(pod)
        if not pod.spec.resourceClaims or not self._gates.enabled("DynamicResourceAllocation"):
            return state
        if self.sharing.groups and (name := podclaims.group_name(pod)):
            state.group = self._group_of(pod)
            if state.group is None:
                raise Refusal(f'podgroup "{name}" not found')
        for use in podclaims.uses_of(pod, state.group):
            if not use.needed:
                continue
            if use.claim is None:
                raise Refusal(_why_no_claim(pod, use.entry, state.group))
            claim = self._claims.get(pod.metadata.namespace, use.claim)
            if claim is None:
                raise Refusal(f'resourceclaim "{use.claim}" not found')
            found = ClaimUse(claim, use.by_group and self.sharing.groups)
            if use.generated:
                self._check_owner(state, found)
            if not any(known.claim is claim and known.by_group == found.by_group for known in state.uses):
                state.uses.append(found)  # two entries may name one claim
        return state

    def _check_owner(self, state: PodClaims, use: ClaimUse) -> None:
        claim, pod = use.claim, state.pod
        if use.by_group:
            if state.group is None or not podclaims.is_controlled_by(claim, state.group.metadata.uid):
                raise Refusal(f'resourceclaim "{claim.metadata.name}" was not created for the PodGroup of the pod')
        elif not podclaims.is_controlled_by(claim, pod.metadata.uid) and not self._is_as_good_as_own(claim, pod):
            raise Refusal(f'resourceclaim "{claim.metadata.name}" was not created for the pod')

    def _is_as_good_as_own(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Without the gate for groups, what was made for the pod's group passes for the pod's own."""
        return not self.sharing.groups and podclaims.is_made_for_group(claim, podclaims.group_name(pod))

    # -- in a cycle

    def narrow(self, state: PodClaims, nodes: int, timeout: float) -> tuple[int, dict[str, int]]:
        """Which of these nodes can serve the pod's claims, and why the others cannot."""
        refused: dict[str, int] = {}
        offered = nodes
        for claim in state.allocated:
            if bad := offered & ~self._reachable(claim):
                state.elsewhere.append(claim)
                refused[ELSEWHERE] = refused.get(ELSEWHERE, 0) | bad
                nodes &= ~bad
        if state.pending and nodes:
            state.asked = nodes
            fits = state.fits = self.index.fits(state.pending, self._deadline(state, timeout), nodes)
            if nodes & fits.undecided and not nodes & fits.nodes and not self._is_enough(state, timeout):
                raise Thinking
            for reason, bad in (
                (TIMED_OUT, nodes & fits.undecided),
                (CANNOT_ALLOCATE, nodes & ~fits.nodes & ~fits.undecided & ~fits.failing),
            ):
                if bad:
                    refused[reason] = bad
                    nodes &= ~bad
            nodes = self._without_failing(state, nodes, fits.failing, refused)
        return nodes, refused

    def _without_failing(self, state: PodClaims, nodes: int, failing: int, refused: dict[str, int]) -> int:
        """Leave out nodes where the input is wrong; what is wrong everywhere stops the attempt."""
        for info in self._table.named(nodes & failing):
            outcome = self.index.allocate(info.name, state.pending)
            if isinstance(outcome, Failed):
                if not outcome.node_only:
                    raise Wrong(outcome.error)
                refused[outcome.error] = refused.get(outcome.error, 0) | 1 << info.position
            nodes &= ~(1 << info.position)
        return nodes

    def _reachable(self, claim: ResourceClaim) -> int:
        """The nodes from which an allocated claim can be used."""
        selector = claim.status.allocation.nodeSelector if claim.status.allocation else None
        if selector is None:
            return self._table.everyone
        name = single_node(selector)
        if name is not None:
            info = self._table.get(name)
            return 1 << info.position if info is not None and info.node is not None else 0
        return self._kept.matching(selector)

    def expendable(self, state: PodClaims) -> ResourceClaim | None:
        """An allocation that keeps the pod from nodes and that nobody else uses.

        A reservation for anything but a pod, and a claim for any pod, may be in use by pods that are not listed.
        """
        for claim in state.elsewhere:
            allocation = claim.status.allocation
            if claim.metadata.deletionTimestamp is not None or allocation is None or allocation.reservedForAnyPod:
                continue
            if all(reference.uid == state.pod.metadata.uid for reference in claim.status.reservedFor):
                return claim
        return None

    def preference(self, state: PodClaims, info: NodeInfo) -> float:
        """How good the alternatives are that a node would give, after KEP-4816."""
        return state.fits.score(info.name) if state.fits is not None else 0.0

    def promise(self, state: PodClaims, info: NodeInfo, timeout: float) -> tuple[Promise | None, str]:
        """Take devices on a node for the pod; or the reason why that did not work after all."""
        if not state.pending:
            return Promise(state, info.name, None), ""
        outcome = self.index.allocate(info.name, state.pending, self._deadline(state, timeout))
        match outcome:
            case Allocated():
                for claim, devices in zip(state.pending, outcome.devices, strict=True):
                    self.ledger.promise(claim.metadata.uid, devices)
                return Promise(state, info.name, outcome), ""
        if state.fits is not None:
            state.fits = state.fits.without(info.position)  # that it fits will be news once more
        match outcome:
            case GaveUp():
                return None, TIMED_OUT
            case Failed():
                return None, outcome.error
            case Unallocatable():
                return None, CANNOT_ALLOCATE

    def explain(self, state: PodClaims, nodes: int) -> str:
        """What the allocator says about one of the nodes that came closest: the reason behind the refusal."""
        info = next(self._table.named(nodes), None)
        outcome = self.index.allocate(info.name, state.pending) if info is not None else None
        if info is None or not isinstance(outcome, Unallocatable):
            return ""
        return f"node {info.name}: {outcome.reason}."

    def is_news(self, refused: PodClaims) -> bool:
        """Whether devices can be had on other nodes than when a pod was refused."""
        then, asked = refused.fits, refused.asked
        if then is None:
            return False
        now = self.index.fits(refused.pending, self._now() + THINKING, asked)
        more = now.nodes & ~then.nodes | now.undecided & ~then.undecided | now.failing ^ then.failing
        return bool(more & asked)

    def _deadline(self, state: PodClaims, timeout: float) -> float:
        """When to give others a turn: an attempt is made in parts, each as long as those before it together."""
        part = max(THINKING, state.thought)
        return self._now() + (min(part, timeout - state.thought) if self._is_limited(timeout) else part)

    def _is_enough(self, state: PodClaims, timeout: float) -> bool:
        """Whether this was the last part of an attempt."""
        return self._is_limited(timeout) and state.thought + max(THINKING, state.thought) >= timeout

    def _is_limited(self, timeout: float) -> bool:
        return timeout > 0 and self._gates.enabled("DRASchedulerFilterTimeout")

    # -- what claims say

    def claim_changed(self, claim: ResourceClaim, *, gone: bool) -> bool:
        """Note what a claim holds now; True when devices became free."""
        allocation = claim.status.allocation
        devices: tuple[DeviceId, ...] | None = None
        if allocation is not None and not gone:
            devices = tuple(
                DeviceId(r.driver, r.pool, r.device) for r in allocation.devices.results if not r.adminAccess
            )
        if gone:
            self.ledger.forget(claim.metadata.uid)
        return self.ledger.written(claim.metadata.uid, devices, _version(claim))

    def claim_written(self, claim: ResourceClaim) -> bool:
        """Note what a binding wrote; True when devices became free, as somebody has taken it back since."""
        meta = claim.metadata
        if not self.ledger.is_promised(meta.uid):
            return False  # the news was faster
        self.ledger.kept(meta.uid, _version(claim))
        known = self._claims.get(meta.namespace, meta.name)
        return known is not None and known.metadata.uid == meta.uid and self.claim_changed(known, gone=False)


def _version(claim: ResourceClaim) -> int:
    return int(claim.metadata.resourceVersion or 0)


class KeptNodes:
    """The nodes that match the selectors of shared allocations, kept until a node changes: thousands of pods ask."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._seen = -1
        self._sets: dict[NodeSelector, int] = {}

    def matching(self, selector: NodeSelector) -> int:
        if self._seen != self._table.object_changes.end or len(self._sets) >= SELECTORS_KEPT:
            self._sets.clear()
            self._seen = self._table.object_changes.end
        found = self._sets.get(selector)
        if found is None:
            found = self._sets[selector] = sum(
                1 << info.position
                for info in self._table
                if info.node and node_selector_matches(selector, info.node.metadata.labels, info.name)
            )
        return found


def single_node(selector: NodeSelector) -> str | None:
    """The node that a selector names, where it is of the form that node-local devices get."""
    if len(selector.nodeSelectorTerms) != 1:
        return None
    term = selector.nodeSelectorTerms[0]
    if term.matchExpressions or len(term.matchFields) != 1:
        return None
    field_ = term.matchFields[0]
    named = field_.key == "metadata.name" and field_.operator == "In" and len(field_.values) == 1
    return field_.values[0] if named else None


def _why_no_claim(pod: Pod, name: str, group: PodGroup | None) -> str:
    """Why an entry of a pod has no claim yet: there is nothing to wait for where its group does not have it."""
    entry = next(entry for entry in pod.spec.resourceClaims if entry.name == name)
    wanted = entry.podGroupResourceClaim
    if group is not None and wanted is not None and podclaims.group_entry(entry, group) is None:
        return f'podgroup "{group.metadata.name}" has no resource claim "{wanted}"'
    return f"ResourceClaim not created yet: waiting for the one of entry {name} to be created from its template"
