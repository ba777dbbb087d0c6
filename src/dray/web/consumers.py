"""Rows of claims, pods and groups of a picture, and which pod uses which claim.

Pods are shown if they wait, use claims or belong to a group. Changes are recorded and applied at the next refresh, so
a pod that changes five times in 0.1 s costs one row. Devices are in `inventory`, reasons for waiting in `causes`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from dray.api.allocations import DeviceId
from dray.api.claim_lifecycle import has_devices
from dray.api.device_health import unhealthy_in_pod
from dray.api.podclaims import has_claims, uses_of
from dray.api.times import parse_timestamp
from dray.api.types.core import Node, Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup, Workload
from dray.client import Delta, Key, key_of
from dray.questions.pod_groups import GroupRow
from dray.questions.pod_groups import group_row as fares_of
from dray.web.following import Following
from dray.web.inventory import DashboardInventory
from dray.web.rows.claims import PodState, claim_keys, claim_row, devices_of, group_key, group_row, pod_row, pod_state
from dray.web.tables import RowTable, Strings

WAITS = frozenset({PodState.WAITING, PodState.GATED})
ClaimGone = Callable[[int, Key], None]


class DashboardConsumers:
    """Rows of claims, pods and groups in one dashboard picture. `following` has the objects."""

    def __init__(
        self,
        tables: Mapping[str, RowTable],
        strings: Strings,
        inventory: DashboardInventory,
        clock: Callable[[], float],
    ) -> None:
        self._tables, self._strings, self._inventory, self._clock = tables, strings, inventory, clock
        self.following: Following | None = None
        self.claim_gone: ClaimGone = lambda number, key: None
        self._claim_deltas: deque[Delta[ResourceClaim]] = deque()
        self._claims: dict[Key, None] = {}
        self._pods: dict[Key, None] = {}
        self._groups: dict[tuple[type, Key], None] = {}
        self._uses: dict[Key, tuple[Key, ...]] = {}  # pod → claims
        self._users: defaultdict[Key, dict[Key, None]] = defaultdict(dict)  # claim → pods
        self._group_of: dict[Key, Key] = {}  # pod → group
        self._members: defaultdict[Key, dict[Key, None]] = defaultdict(dict)  # group → pods
        self._constrained: dict[tuple[type, Key], None] = {}  # groups with a topology constraint
        self._states: dict[Key, PodState] = {}
        self.waiting: dict[Key, Pod] = {}
        self.causes: dict[Key, int] = {}  # pod → row number of its cause
        self.tally: Counter[PodState] = Counter()  # shown pods by state
        self.allocations = 0  # number of claims allocated so far

    # Changes

    def claims_changed(self, deltas: Sequence[Delta[ResourceClaim]]) -> None:
        """Record changed claims."""
        self._claim_deltas.extend(deltas)

    def _take_over(self, delta: Delta[ResourceClaim]) -> None:
        """Apply a changed claim to the inventory and mark its row for update."""
        key = key_of(delta.object)
        self._note_allocation(key, *delta)
        self._inventory.claim_changed(*delta)
        self._claims[key] = None

    def _note_allocation(self, key: Key, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Record when a claim was allocated, and count the allocation.

        Only allocations that are seen to happen are counted. Without a timestamp, the time is that of the
        observation.
        """
        if new is None or new.status.allocation is None:
            self._inventory.allocated_at.pop(key, None)
        elif key not in self._inventory.allocated_at:
            stamp = new.status.allocation.allocationTimestamp
            seen = old is not None and not has_devices(old)
            self.allocations += seen
            if stamp or seen:
                self._inventory.allocated_at[key] = parse_timestamp(stamp) if stamp else self._clock()

    def pods_changed(self, deltas: Sequence[Delta[Pod]]) -> None:
        """Record changed pods."""
        for delta in deltas:
            self._pods[key_of(delta.object)] = None

    def groups_changed(self, deltas: Sequence[Delta[PodGroup]]) -> None:
        """Record changed pod groups and their pods."""
        for delta in deltas:
            key = key_of(delta.object)
            self._groups[PodGroup, key] = None
            self._pods.update(self._members.get(key, {}))

    def workloads_changed(self, deltas: Sequence[Delta[Workload]]) -> None:
        """Record changed workloads."""
        for delta in deltas:
            self._groups[Workload, key_of(delta.object)] = None

    def nodes_changed(self) -> None:
        """Mark groups with a topology constraint for update, because their domain is a label of nodes."""
        self._groups.update(dict.fromkeys(self._constrained))

    def explained(self, pods: Mapping[Key, int]) -> None:
        """Set the causes of waiting pods and mark changed pods for update.

        `pods` maps waiting pods to the number of their cause.
        """
        for key in pods.keys() | self.causes.keys():
            if pods.get(key) != self.causes.get(key):
                self._pods[key] = None
        self.causes = dict(pods)

    # Rows

    def refresh(self) -> Iterator[None]:
        """Apply recorded changes, yielding after each. Pods come first, because claims list them."""
        while self._claim_deltas:
            self._take_over(self._claim_deltas.popleft())
            yield
        while self._pods or self._claims:
            noted, work = (self._pods, self._pod) if self._pods else (self._claims, self._claim)
            key = next(iter(noted))
            del noted[key]
            work(key)
            yield
        while self._groups:
            type_, key = next(iter(self._groups))
            del self._groups[type_, key]
            self._group(type_, key)
            yield

    def _pod(self, key: Key) -> None:
        """Update the row of a pod, or drop it if the pod is gone or not shown.

        Shown are pods that wait, have claims or belong to a group.
        """
        assert self.following is not None
        pod: Pod | None = self.following.get(Pod, *key)
        state = pod_state(pod) if pod is not None else None
        shown = pod is not None and (state in WAITS or has_claims(pod) or group_key(pod) is not None)
        group = group_key(pod) if pod is not None and shown else None
        known = self.following.get(PodGroup, *group) if group is not None else None
        uses = claim_keys(pod, known) if pod is not None and shown else ()
        self._link(key, uses, group)
        self._inventory.health_told(key, self._sick_devices(pod, known) if pod is not None else frozenset())
        self._count(key, state if shown else None)
        if pod is None or state is None or not shown:
            self.waiting.pop(key, None)
            self._tables["pods"].drop(key)
            return
        if state in WAITS:
            self.waiting[key] = pod
        else:
            self.waiting.pop(key, None)
        node = self._tables["nodes"].number(pod.spec.nodeName) if pod.spec.nodeName else None
        claims = self._numbers("claims", uses)
        in_group = self._tables["groups"].number((PodGroup, group)) if known is not None else None
        cause = self.causes.get(key) if state in WAITS else None
        self._tables["pods"].put(key, pod_row(pod, state, self._strings, node, cause, claims, in_group))

    def _sick_devices(self, pod: Pod, group: PodGroup | None) -> frozenset[DeviceId]:
        """Return the devices that the pod's status reports as unhealthy."""

        def claim_of(entry: str) -> ResourceClaim | None:
            name = next((use.claim for use in uses_of(pod, group) if use.entry == entry), None)
            return self._known_claim((pod.metadata.namespace, name)) if name else None

        return frozenset(unhealthy_in_pod(pod, claim_of))

    def _known_claim(self, key: Key) -> ResourceClaim | None:
        """Return a claim, or None."""
        assert self.following is not None
        claim: ResourceClaim | None = self.following.get(ResourceClaim, *key)
        return claim

    def _link(self, pod: Key, uses: tuple[Key, ...], group: Key | None) -> None:
        """Update which claims and group a pod uses, and mark affected claims and groups for update."""
        before = self._uses.get(pod, ())
        if uses != before:
            for claim in before:
                self._users[claim].pop(pod, None)
                if not self._users[claim]:
                    del self._users[claim]
            for claim in uses:
                self._users[claim][pod] = None
            self._claims.update(dict.fromkeys((*before, *uses)))
        if uses:
            self._uses[pod] = uses
        else:
            self._uses.pop(pod, None)
        former = self._group_of.get(pod)
        for one in {former, group} - {None}:
            assert one is not None
            self._groups[PodGroup, one] = None
        if former is not None and former != group:
            self._members[former].pop(pod, None)
            if not self._members[former]:
                del self._members[former]
        if group is None:
            self._group_of.pop(pod, None)
        else:
            self._group_of[pod] = group
            self._members[group][pod] = None

    def _count(self, key: Key, state: PodState | None) -> None:
        """Update the number of pods by state; None means that the pod is not shown."""
        before = self._states.pop(key, None)
        if before is not None:
            self.tally[before] -= 1
        if state is not None:
            self.tally[state] += 1
            self._states[key] = state

    def _claim(self, key: Key) -> None:
        """Update the row of a claim, or drop it if the claim is gone."""
        table, claim = self._tables["claims"], self._known_claim(key)
        users = self._users.get(key, {})
        if claim is None:
            number = table.find(key)
            if table.drop(key) is not None and number is not None:
                self.claim_gone(number, key)
                self._pods.update(users)
            return
        is_new = table.get(key) is None
        devices = [(device, self._tables["devices"].number(device)) for device in devices_of(claim)]
        pods = self._numbers("pods", users)
        allocated = self._inventory.allocated_at.get(key)
        table.put(key, claim_row(claim, self._strings, allocated, self._tables["nodes"].number, devices, pods))
        if is_new:
            self._pods.update(users)

    def _group(self, type_: type, key: Key) -> None:
        """Update the row of a group or workload, or drop it if the object is gone."""
        assert self.following is not None
        group = self.following.get(type_, *key)
        if group is None:
            self._tables["groups"].drop((type_, key))
            self._constrained.pop((type_, key), None)
            return
        members = self._of_workload(key) if type_ is Workload else [*self._members.get(key, {})]
        states = [self._states[member] for member in members if member in self._states]
        claims: dict[Key, None] = {}
        for member in members:
            claims.update(dict.fromkeys(self._uses.get(member, ())))
        placed = sum(state not in WAITS for state in states)
        if isinstance(group, PodGroup) and group.spec.workloadRef is not None:
            self._groups[Workload, (key[0], group.spec.workloadRef.workloadName)] = None
        fares = self._fares(group, members) if isinstance(group, PodGroup) else None
        row = group_row(group, self._strings, len(states), placed, self._numbers("claims", claims), fares)
        self._tables["groups"].put((type_, key), row)

    def _fares(self, group: PodGroup, members: Sequence[Key]) -> GroupRow:
        """Return the state of a group: whether it is placed, in which domain, and what it waits for."""
        assert self.following is not None
        pods: list[Pod] = [pod for pod in (self.following.get(Pod, *key) for key in members) if pod is not None]
        nodes = (self.following.get(Node, "", name) for name in {pod.spec.nodeName for pod in pods} - {""})
        labels = {node.metadata.name: node.metadata.labels for node in nodes if node is not None}
        found = fares_of(group, pods, labels)
        if found.topology:
            self._constrained[PodGroup, key_of(group)] = None
        return found

    def _of_workload(self, key: Key) -> list[Key]:
        """Return the pods of all groups that belong to a workload.

        The keys are (namespace, name).
        """
        assert self.following is not None
        found: list[Key] = []
        for group, members in self._members.items():
            known: PodGroup | None = self.following.get(PodGroup, *group)
            reference = known.spec.workloadRef if known is not None else None
            if reference is not None and (group[0], reference.workloadName) == key:
                found += members
        return found

    def _numbers(self, table: str, keys: Mapping[Key, None] | Sequence[Key]) -> tuple[int, ...]:
        """Return the row numbers of those keys that have a row.

        Other keys are left out. `table` is the name of a table.
        """
        found = (self._tables[table].find(key) for key in keys)
        return tuple(number for number in found if number is not None)
