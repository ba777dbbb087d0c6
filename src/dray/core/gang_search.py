"""Exact search for a placement of all pods of a gang, used when placing pods one by one fails.

Claims shared by several pods are allocated first, one after the other, in every way that makes a difference. Then
each node in turn takes some pods of each kind; what fits on a node together is asked as one question (`gang_checks`).
If each device belongs to a single node, only the largest loads of a node matter; if devices span nodes, all loads and
choices of devices matter.

The search is a generator that yields between checks, so other work can run. It ends with a placement, with proof that
none exists, or without an answer when its steps are used up. Left out: rules about other pods of the gang (affinity,
spreading); with such rules, a failed search proves nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from dray.api.allocations import DeviceId
from dray.api.types.core import Pod
from dray.api.types.resource import AllocationResult, ResourceClaim
from dray.core.gang_checks import Grant, Grants, MakeAttempt, NodeChecks
from dray.core.gang_kinds import GangPodKind, NodeLoad, kinds_of, minds_others, pods_of, shared_claims
from dray.core.state import ClusterState
from dray.verdicts.nodes import NodeInfo

SEARCH_STEPS = 20_000  # limit of pods checked on nodes, some seconds of work
_NO_DEVICES: frozenset[DeviceId] = frozenset()


class Found(NamedTuple):
    """Placement: pods with their nodes, and the allocation of each pending claim, by uid."""

    places: Sequence[tuple[Pod, NodeInfo]]
    grants: Grants


class GangOutOfSteps(Exception):
    """The steps of the search are used up."""


GangSearchSteps = Generator[None, None, Found | None]


class GangSearch:
    """Exact search for a placement of at least `needed` of the pods on the given nodes."""

    def __init__(
        self,
        state: ClusterState,
        attempt_for: MakeAttempt,
        pods: Sequence[Pod],
        needed: int,
        nodes: int,
        limit: int = SEARCH_STEPS,
    ) -> None:
        self.state, self.needed, self._limit = state, needed, limit
        self.checks = NodeChecks(state, attempt_for)
        self.infos = [*state.table.named(nodes & state.table.everyone)]
        attempts = [attempt_for(pod) for pod in pods]
        self._shared = shared_claims(attempts)
        self._kinds = kinds_of(attempts, self._shared)
        self.is_exact = not any(map(minds_others, pods)) and all(one.problem is None for one in attempts)
        self._local = local_pools(state)
        self.spans_nodes = any(
            pool not in self._local for pool in state.pools
        )  # whether any devices are reachable from several nodes

    @property
    def steps(self) -> int:
        return self.checks.steps

    @property
    def is_proof(self) -> bool:
        """Whether a search that ended without a placement has proved that no placement exists."""
        return self.is_exact and not self.checks.undecided

    def run(self) -> GangSearchSteps:
        """Return the search as a generator, which returns a placement or None, or raises GangOutOfSteps."""
        return self._share([*self._shared.values()], self._kinds, ())

    def spend(self) -> None:
        """Raise GangOutOfSteps if no steps are left for another check."""
        if self.checks.steps >= self._limit:
            raise GangOutOfSteps

    def spanning(self, grants: Grants) -> frozenset[DeviceId]:
        """Return the devices among these grants that other nodes can also reach."""
        if not self.spans_nodes:
            return _NO_DEVICES
        taken = [grant.taken for grant in grants.values()]
        found = frozenset(d for one in taken for d in one.touched if (d.driver, d.pool) not in self._local)
        if any(share.device in found for one in taken for share in one.shares):
            self.is_exact = False  # another amount of a shared device might work, but is not tried
        return found

    def _share(
        self, left: Sequence[ResourceClaim], kinds: Sequence[GangPodKind], given: tuple[ResourceClaim, ...]
    ) -> GangSearchSteps:
        """Allocate the next shared claim in every way and continue; finally, try without the pods that need it.

        `left` are the claims not yet allocated, and `given` the allocated ones. The generator returns a placement or
        None.
        """
        if not left:
            return (yield from _Distribution(self, kinds, given).run())
        claim, rest = left[0], left[1:]
        uid = claim.metadata.uid
        if any(uid in kind.shared for kind in kinds):
            seen: set[Hashable] = set()
            for info in self.infos:
                for grant in self._ways_to_share(info, claim, given):
                    yield
                    key = grant.taken, msgspec.json.encode(grant.result)
                    if key in seen:
                        continue
                    seen.add(key)
                    found = yield from self._share(rest, kinds, (*given, _allocated(claim, grant)))
                    if found is not None:
                        return Found(found.places, {**found.grants, uid: grant})
            kinds = [kind for kind in kinds if uid not in kind.shared]
        if sum(len(kind.pods) for kind in kinds) < self.needed:
            return None
        return (yield from self._share(rest, kinds, given))

    def _ways_to_share(self, info: NodeInfo, claim: ResourceClaim, given: tuple[ResourceClaim, ...]) -> Iterator[Grant]:
        """Yield every allocation that a claim may get on a node. Raises GangOutOfSteps if the steps are used up."""
        waiting, known = [_NO_DEVICES], set[frozenset[DeviceId]]()
        while waiting:
            blocked = waiting.pop()
            if blocked in known:
                continue
            known.add(blocked)
            self.spend()
            grant = self.checks.grant(info, claim, given, blocked)
            if grant is not None:
                yield grant
                waiting += [blocked | {device} for device in grant.taken.touched]


class _Distribution:
    """Distribution of pods over nodes, given the shared claims that are already allocated (`given`)."""

    def __init__(self, search: GangSearch, kinds: Sequence[GangPodKind], given: tuple[ResourceClaim, ...]) -> None:
        self._search, self._kinds, self._given = search, kinds, given
        self._wanted = tuple(len(kind.pods) for kind in kinds)
        self._spare = sum(self._wanted) - search.needed
        self._caps: list[NodeLoad] = []
        self._after: list[NodeLoad] = []  # most pods of each kind that fit on the nodes from a position on
        self._names: list[Hashable] = []  # key of nodes that fit the same loads
        self._unfit: set[Hashable] = set()
        self._failed: set[Hashable] = set()

    def run(self) -> GangSearchSteps:
        """Search for a distribution. The generator returns a placement or None."""
        if self._spare < 0:
            return None
        yield from self._find_caps()
        self._sort_kinds()
        none = (0,) * len(self._kinds)
        self._after = [none]
        for cap in reversed(self._caps):
            self._after.append(tuple(map(sum, zip(cap, self._after[-1], strict=True))))
        self._after.reverse()
        return (yield from self._go_on(0, self._wanted, _NO_DEVICES, None))

    def _find_caps(self) -> Generator[None, None, None]:
        """Find how many pods of each kind fit on each node if the node takes only that kind."""
        known: dict[Hashable, NodeLoad] = {}
        is_named = self._search.spans_nodes or any(kind.names_nodes for kind in self._kinds)
        for info in self._search.infos:
            name = info.name if is_named else _node_equivalence_key(self._search.state, info)
            self._names.append(name)
            if name not in known:
                known[name] = yield from self._cap(info, name)
            self._caps.append(known[name])

    def _cap(self, info: NodeInfo, name: Hashable) -> Generator[None, None, NodeLoad]:
        """Return how many pods of each kind fit on a node if the node takes only that kind."""
        cap = []
        for at, wanted in enumerate(self._wanted):
            count = 0
            while count < wanted:
                load = tuple(count + 1 if other == at else 0 for other in range(len(self._wanted)))
                if (yield from self._fit(info, name, load, self._wanted, _NO_DEVICES)) is None:
                    break
                count += 1
            cap.append(count)
        return tuple(cap)

    def _sort_kinds(self) -> None:
        """Sort the kinds so that those with the least spare room come first.

        Clears cached results, which use the old order.
        """
        room = [sum(cap[at] for cap in self._caps) - wanted for at, wanted in enumerate(self._wanted)]
        order = sorted(range(len(room)), key=room.__getitem__)
        self._kinds = [self._kinds[at] for at in order]
        self._wanted = tuple(self._wanted[at] for at in order)
        self._caps = [tuple(cap[at] for at in order) for cap in self._caps]
        self._unfit.clear()

    def _go_on(
        self, at: int, left: NodeLoad, blocked: frozenset[DeviceId], last: tuple[Hashable, NodeLoad] | None
    ) -> GangSearchSteps:
        """Place the remaining pods on the nodes from position `at` on. The generator returns a placement or None.

        `left` is the number of pods of each kind, `blocked` the devices that earlier nodes have taken, and `last` the
        key and the load of the node before, if there is one.
        """
        if sum(left) <= self._spare:
            return Found((), {})
        missing = sum(max(0, one - room) for one, room in zip(left, self._after[at], strict=True))
        key = at, left, blocked, last
        if missing > self._spare or key in self._failed:
            return None
        info, name = self._search.infos[at], self._names[at]
        tried: list[NodeLoad] = []
        for load, grants in self._loads(info, name, left, blocked):
            yield
            if grants is None:
                continue
            if last is not None and last[0] == name and load > last[1]:
                continue  # of equal nodes, the first takes the larger load
            if not self._search.spans_nodes and any(_is_within(load, other) for other in tried):
                continue  # more pods on this node leave fewer pods for the other nodes
            tried.append(load)
            found = yield from self._with_load(at, left, blocked, load, grants)
            if found is not None:
                return found
        self._failed.add(key)
        return None

    def _with_load(
        self, at: int, left: NodeLoad, blocked: frozenset[DeviceId], load: NodeLoad, grants: Grants
    ) -> GangSearchSteps:
        """Place a load on the node at position `at` and the remaining pods on later nodes.

        The generator returns a placement or None.
        """
        info, pods = self._search.infos[at], pods_of(self._kinds, load, left)
        rest = tuple(one - placed for one, placed in zip(left, load, strict=True))
        last = None if self._search.spans_nodes else (self._names[at], load)
        for choice in self._choices(info, pods, blocked, grants):
            yield
            taken = blocked | self._search.spanning(choice)
            found = yield from self._go_on(at + 1, rest, taken, last)
            if found is not None:
                places = [(pod, info) for pod in pods]
                return Found((*places, *found.places), {**choice, **found.grants})
        return None

    def _loads(
        self, info: NodeInfo, name: Hashable, left: NodeLoad, blocked: frozenset[DeviceId]
    ) -> Iterator[tuple[NodeLoad, Grants | None]]:
        """Yield the loads that fit on a node with their grants, largest counts of the first kinds first.

        Yields grants of None before each check, so that the caller can pause.
        """
        most = tuple(map(min, left, self._caps[self._search.infos.index(info)]))
        stack: list[tuple[tuple[int, ...], Grants]] = [((), {})]
        while stack:
            load, grants = stack.pop()
            if len(load) == len(most):
                yield load, grants
                continue
            for count in range(most[len(load)] + 1):
                longer = (*load, count)
                padded = longer + (0,) * (len(most) - len(longer))
                fitting: Grants | None = grants
                if count:
                    yield padded, None
                    fitting = self._fit_now(info, name, padded, left, blocked)
                if fitting is None:
                    break
                stack.append((longer, fitting))

    def _choices(
        self, info: NodeInfo, pods: Sequence[Pod], blocked: frozenset[DeviceId], first: Grants
    ) -> Iterator[Grants]:
        """Yield allocations for a load that leave different shared devices to other nodes, starting with `first`."""
        yield first
        waiting, known = [frozenset({device}) for device in self._search.spanning(first)], {_NO_DEVICES}
        while waiting:
            more = waiting.pop()
            if more in known:
                continue
            known.add(more)
            self._search.spend()
            grants = self._search.checks.fit(info, pods, self._given, blocked | more)
            if grants is not None:
                yield grants
                waiting += [more | {device} for device in self._search.spanning(grants)]

    def _fit(
        self, info: NodeInfo, name: Hashable, load: NodeLoad, left: NodeLoad, blocked: frozenset[DeviceId]
    ) -> Generator[None, None, Grants | None]:
        """Yield once, then return the result of `_fit_now`."""
        yield
        return self._fit_now(info, name, load, left, blocked)

    def _fit_now(
        self, info: NodeInfo, name: Hashable, load: NodeLoad, left: NodeLoad, blocked: frozenset[DeviceId]
    ) -> Grants | None:
        """Return the allocations of a load's claims on a node, or None if the load does not fit there.

        Caches failures under `name`, the key of equal nodes. Raises GangOutOfSteps if no steps are left.
        """
        key = name, load, blocked
        if key in self._unfit:
            return None
        self._search.spend()
        grants = self._search.checks.fit(info, pods_of(self._kinds, load, left), self._given, blocked)
        if grants is None:
            self._unfit.add(key)
        return grants


def _allocated(claim: ResourceClaim, grant: Grant) -> ResourceClaim:
    """Return the claim with the granted allocation in its status."""
    allocation = msgspec.convert(grant.result, AllocationResult)
    return replace(claim, status=replace(claim.status, allocation=allocation))


def _is_within(load: NodeLoad, other: NodeLoad) -> bool:
    """Whether a load has at most as many pods of every kind as another load."""
    return all(one <= more for one, more in zip(load, other, strict=True))


def _node_equivalence_key(state: ClusterState, info: NodeInfo) -> Hashable:
    """Return a key that is equal for nodes that fit the same loads of pods.

    Only for pods without rules about labels or names of nodes. The key is the node's name if no other node can be
    known to be equal.
    """
    node, devices = info.node, state.index.equivalence_key(info.name)
    if devices is None or state.table.refusers or state.index.asks_more_of_nodes or node is None:
        return info.name
    free = tuple((name, info.free(name)) for name in sorted({*info.allocatable, *info.taken}))
    ports = tuple(sorted(map(str, info.ports)))
    return devices, free, info.free_pods, ports, node.spec.unschedulable, msgspec.json.encode(node.spec.taints)


def local_pools(state: ClusterState) -> set[tuple[str, str]]:
    """Return the pools whose devices all belong to a single node, as (driver, pool)."""
    return {pool for pool in state.pools if all(piece.spec.nodeName for piece in state.pools.slices_of(pool))}
