"""Rows of pools, devices and drivers of a picture, updated from slices, taint rules and claims.

Changes are recorded and applied at the next refresh. A pool with counters is evaluated as a whole, because a device
in use can make others unavailable; in other pools only the changed devices are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from dray.api.allocations import DeviceId
from dray.api.availability import ClusterPools, DeviceHolders, DeviceState, PoolUse, PublishedPool
from dray.api.device_health import unhealthy_in_claim
from dray.api.pools import PoolName
from dray.api.types.resource import Device, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.wire import Tree
from dray.client import Delta, Key, key_of
from dray.web.rows.devices import PartitionPlace, flags_of, partition_places
from dray.web.tables import RowTable, Strings, TableRow

DeviceChanged = Callable[[DeviceId, int, TableRow | None, TableRow | None], None]
"""Called for every changed device row: device, row number, row before and after."""

STATE, CLAIMS = 3, 5  # columns in a device row
_VERSION = "driverVersion"  # attribute in which drivers publish their version


class DashboardInventory:
    """Rows of pools, devices and drivers in one dashboard picture."""

    def __init__(self, tables: Mapping[str, RowTable], strings: Strings, changed: DeviceChanged) -> None:
        self._pools, self._devices, self._drivers = tables["pools"], tables["devices"], tables["drivers"]
        self._nodes, self._claims = tables["nodes"], tables["claims"]
        self._strings = strings
        self._changed = changed
        self._published = ClusterPools()
        self._holders = DeviceHolders()
        self._sick: dict[object, frozenset[DeviceId]] = {}  # unhealthy devices by the claim or pod that reports them
        self._unwell: Counter[DeviceId] = Counter()
        self._named: defaultdict[PoolName, set[str]] = defaultdict(set)  # devices named by claims, by pool
        self._rows_of: defaultdict[PoolName, set[str]] = defaultdict(set)  # devices with a row, by pool
        self._partitions: dict[PoolName, Mapping[str, PartitionPlace]] = {}  # where partitions are drawn
        self.views: dict[PoolName, PublishedPool] = {}
        self.tally: Counter[int] = Counter()  # devices by state
        self.counts: dict[PoolName, tuple[int, int, int, int]] = {}
        self.operations: Mapping[str, Sequence[Tree]] = {}
        self.allocated_at: dict[Key, float] = {}
        self.claims_known = False
        self._unjudged: dict[PoolName, None] = {}
        self._unjudged_devices: dict[DeviceId, None] = {}
        self._stale_drivers: dict[str, None] = {}

    # State

    def use_of(self, view: PublishedPool) -> PoolUse:
        """Return the use of a pool, as far as the identity may know its holders."""
        return PoolUse(view, self._holders, self._unwell)

    def taints(self, id_: DeviceId, device: Device) -> list[Tree]:
        """Return the taints of a device in wire form, each with the rule that added it, or "" for the driver's own."""
        rules = self._published.rules_for(id_)
        own = len(device.taints) - len(rules)
        names = [*[""] * own, *(rule.metadata.name for rule in rules)]
        return [
            {"key": taint.key, "value": taint.value or "", "effect": taint.effect, "rule": name}
            for taint, name in zip(device.taints, names, strict=True)
        ]

    # Changes

    def slices_changed(self, deltas: Sequence[Delta[ResourceSlice]]) -> None:
        """Record changed ResourceSlices."""
        for old, new in deltas:
            self._pools_changed(self._published.change_slice(old, new))

    def rules_changed(self, deltas: Sequence[Delta[DeviceTaintRule]]) -> None:
        """Record changed DeviceTaintRules."""
        for old, new in deltas:
            self._pools_changed(self._published.change_rule(old, new))

    def _pools_changed(self, pools: Collection[PoolName]) -> None:
        """Mark pools and their drivers for update."""
        self._unjudged.update(dict.fromkeys(pools))
        self._stale_drivers.update(dict.fromkeys(pool.driver for pool in pools))

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Record a changed claim: its devices and their health.

        `old` is None for a new claim, `new` for a deleted one.
        """
        for device in self._holders.change(old, new):
            self._note(device)
        sick = frozenset(unhealthy_in_claim(new)) if new is not None and new.status.devices else frozenset()
        self.health_told((ResourceClaim, key_of(new or old)), sick)  # type: ignore[arg-type]  # one is not None

    def health_told(self, by: object, sick: frozenset[DeviceId]) -> None:
        """Set the unhealthy devices that a claim or pod reports.

        `by` identifies the claim or pod; an empty set ends its report.
        """
        if not sick and by not in self._sick:
            return
        before = self._sick.pop(by, frozenset())
        if sick:
            self._sick[by] = sick
        self._unwell.update(sick - before)
        self._unwell -= Counter(before - sick)  # drops devices that are no longer reported
        for device in before ^ sick:
            self._note(device)

    def _note(self, device: DeviceId) -> None:
        """Mark a device, or its whole pool if that has counters, for update."""
        pool = PoolName(device.driver, device.pool)
        view = self.views.get(pool)
        if view is None or not view.slices or view.has_counters:
            self._unjudged[pool] = None
        else:
            self._unjudged_devices[device] = None
        self._named[pool].add(device.device)

    def judge_all(self) -> None:
        """Mark all pools for update, because the visibility of claims has changed."""
        self._unjudged.update(dict.fromkeys(self.views))

    def count(self, counts: Mapping[PoolName, tuple[int, int, int, int]]) -> None:
        """Set the numbers of devices per pool that the cluster has counted."""
        self._pools_changed([pool for pool in self.counts.keys() | counts.keys() if pool in self.views])
        self.counts = dict(counts)

    # Rows

    def refresh(self) -> Iterator[None]:
        """Apply recorded changes, yielding after each."""
        while self._unjudged:
            pool = next(iter(self._unjudged))
            del self._unjudged[pool]
            self._judge_pool(pool)
            yield
        while self._unjudged_devices:
            device = next(iter(self._unjudged_devices))
            del self._unjudged_devices[device]
            # only pools without counters come here
            if (view := self.views.get(PoolName(device.driver, device.pool))) is not None:
                self._put(self.use_of(view), device)
            yield

    def _judge_pool(self, name: PoolName) -> None:
        """Update the rows of a pool and all of its devices."""
        view = self._published[name]
        held = {one for one in self._named.pop(name, ()) if DeviceId(*name, one) in self._holders}
        if held:
            self._named[name] = held
        if not view.devices and not held:
            self._forget(name)
        else:
            if view is not self.views.get(name):
                self.views[name], self._partitions[name] = view, partition_places(view)
            self._pools.put(name, self._pool_row(view))
        use = self.use_of(view)
        for device in dict.fromkeys((*view.devices, *sorted(held), *sorted(self._rows_of[name]))):
            self._put(use, DeviceId(*name, device))

    def _put(self, use: PoolUse, id_: DeviceId) -> None:
        """Update the row of a device, or drop it if the device is neither published nor held."""
        number, before = self._devices.find(id_), self._devices.get(id_)
        if id_.device not in use.pool.devices and id_ not in self._holders:
            self._rows_of[use.pool.name].discard(id_.device)
            self._devices.drop(id_)
            row = None
        else:
            self._rows_of[use.pool.name].add(id_.device)
            row = self._row(use, id_)
            self._devices.put(id_, row)
            number = self._devices.number(id_)
        if row != before and number is not None:
            self._count_states(before, row)
            self._changed(id_, number, before, row)

    def _row(self, use: PoolUse, id_: DeviceId) -> TableRow:
        """Return the row of a device."""
        holders = [*map(key_of, self._holders.claims(id_))]
        state, found = use.state(id_.device), use.pool.devices.get(id_.device)
        if state is DeviceState.FREE and not self.claims_known:
            state = DeviceState.UNKNOWN
        used = use.used_part(id_.device) if found is not None and holders else None
        cell, share = self._partitions[use.pool.name].get(id_.device, PartitionPlace(id_.device, 1))
        return (
            self._pools.number(use.pool.name),
            self._strings.number(id_.device),
            self._devices.number(DeviceId(id_.driver, id_.pool, cell)),
            int(state),
            flags_of(found, id_ in self._unwell),
            tuple(map(self._claims.number, holders)),
            min((at for key in holders if (at := self.allocated_at.get(key)) is not None), default=None),
            None if used is None else round(used, 4),
            share,
        )

    def _count_states(self, before: TableRow | None, after: TableRow | None) -> None:
        """Update the number of devices by state after a row has changed.

        None stands for a device without a row, before or after.
        """
        if before is not None:
            self.tally[before[STATE]] -= 1
        if after is not None:
            self.tally[after[STATE]] += 1
        sick = DeviceState.UNHEALTHY
        if (before is not None and before[STATE] == sick) != (after is not None and after[STATE] == sick):
            self._stale_drivers.update(dict.fromkeys(name for name in self._driver_of(before, after)))

    def _driver_of(self, *rows: TableRow | None) -> Iterator[str]:
        """Yield the driver names of device rows.

        Rows that are None are ignored.
        """
        for row in filter(None, rows):
            pool = self._pools.rows.get(row[0])
            driver = self._drivers.rows.get(pool[0]) if pool is not None else None
            if driver is not None:
                yield driver[0]

    def _pool_row(self, view: PublishedPool) -> TableRow:
        """Return the row of a pool."""
        newest = view.slices[0].spec.pool if view.slices else None
        return (
            self._drivers.number(view.name.driver),
            view.name.pool,
            self._nodes.number(view.node) if view.node else None,
            newest.generation if newest is not None else 0,
            len(view.slices),
            newest.resourceSliceCount if newest is not None else 0,
            view.problem.code.value if view.problem is not None else "",
            self.counts.get(view.name),
        )

    def _forget(self, name: PoolName) -> None:
        """Drop a pool that has no slices and that no claim names."""
        self.views.pop(name, None)
        self._partitions.pop(name, None)
        self._pools.drop(name)
        self._stale_drivers[name.driver] = None

    # Drivers

    def refresh_drivers(self) -> None:
        """Update the rows of changed drivers. Each update visits all pools of the driver."""
        stale, self._stale_drivers = self._stale_drivers, {}
        if not stale:
            return
        views: dict[str, list[PublishedPool]] = {}
        for name, view in self.views.items():
            if name.driver in stale:
                views.setdefault(name.driver, []).append(view)
        for driver in stale:
            if driver in views:
                self._drivers.put(driver, self._driver_row(driver, views[driver]))
            else:
                self._drivers.drop(driver)

    def measure(self, operations: Mapping[str, Sequence[Tree]]) -> None:
        """Set the measurements of drivers' operations, and mark drivers whose measurements changed for update."""
        for driver in operations.keys() | self.operations.keys():
            if operations.get(driver) != self.operations.get(driver) and self._drivers.get(driver) is not None:
                self._stale_drivers[driver] = None
        self.operations = operations

    def _driver_row(self, driver: str, views: Sequence[PublishedPool]) -> TableRow:
        """Return the row of a driver."""
        places = [place for view in views for place in view.devices.values()]
        nodes = {place.node for place in places}
        versions = {
            attribute.version or attribute.string or ""
            for place in places
            for name, attribute in place.device.attributes.items()
            if name.rpartition("/")[2] == _VERSION
        }
        sick = sum(
            row[STATE] == DeviceState.UNHEALTHY
            for view in views
            for name in view.devices
            if (row := self._devices.get(DeviceId(*view.name, name))) is not None
        )
        return (
            driver,
            tuple(sorted(self._nodes.number(node) for node in nodes - {""})),
            len(views),
            sum(len(view.slices) for view in views),
            len(places),
            sick,
            sum(view.problem is not None for view in views),
            max((one.spec.pool.generation for view in views for one in view.slices), default=0),
            tuple(sorted(versions - {""})),
            tuple(self.operations[driver]) if driver in self.operations else None,
        )
