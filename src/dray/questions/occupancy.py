"""Utilisation as rows: devices, pools, nodes, claims and groups, for tables and JSON.

Pools are counted like ResourcePoolStatusRequests, whether the user can read claims or must request the numbers. A
user who cannot read DeviceTaintRules does not see the taints they add. Left out: drawing (`dray.cli.top`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dray.api.allocations import DeviceId
from dray.api.availability import KEEPS_OUT, DeviceState
from dray.api.pools import PoolName
from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.wording import say
from dray.api.taints import taint_text
from dray.api.types.resource import Device, PoolStatus, ResourceClaim, ResourcePoolStatusRequest
from dray.controllers.poolstatus.computation import count_use
from dray.inspect.asking import asks_of
from dray.inspect.hardware import Hardware
from dray.inspect.snapshot import Snapshot
from dray.questions.partial_use import WHOLE, PartialUse, consumers, partial_use
from dray.questions.pod_groups import GroupRow, group_rows


def taints_told(snapshot: Snapshot, id_: DeviceId, device: Device) -> tuple[str, ...]:
    """Return the taints that exclude new pods from a device, as text with the rules that add them."""
    rules = snapshot.pools.rules_for(id_) if device.taints else []
    told = []
    for taint in device.taints:
        if taint.effect in KEEPS_OUT:
            of_rules = [
                rule for rule in rules if (rule.spec.taint.key, rule.spec.taint.effect) == (taint.key, taint.effect)
            ]
            names = ", ".join(rule.metadata.name for rule in of_rules)
            told.append(taint_text(taint) + (say(CausePhrase.BY_RULES, names=names) if names else ""))
    return tuple(told)


def counted(whys: Sequence[str], phrase: CausePhrase) -> str:
    """Return a count of devices with the distinct reasons, like `2 tainted: fan:NoSchedule`."""
    names = "; ".join(dict.fromkeys(why for why in whys if why))
    return say(phrase, count=len(whys), names=f": {names}" if names else "")


_STATES = {
    DeviceState.FREE: "free",
    DeviceState.RESERVED: "allocated",
    DeviceState.IDLE: "allocated",
    DeviceState.SHARED: "shared",
    DeviceState.EXCLUDED: "blocked",
    DeviceState.TAINTED: "tainted",
    DeviceState.UNHEALTHY: "unhealthy",
    DeviceState.INCOMPLETE: "unusable",
}


class PoolRow(msgspec.Struct, frozen=True):
    """Devices of one pool, counted by state."""

    driver: str
    pool: str
    node: str
    total: int
    allocated: int
    available: int
    unavailable: int
    slices: int
    generation: int
    problem: str
    unhealthy: int = 0
    why: tuple[str, ...] = ()  # reasons why devices of a usable pool are unavailable

    @property
    def utilisation(self) -> float:
        """Fraction of the devices that is allocated.

        From 0 to 1; 0 without devices.
        """
        return self.allocated / self.total if self.total else 0.0


class NodeRow(msgspec.Struct, frozen=True):
    """Devices of one driver on one node, counted by state. `node` is empty for devices that several nodes can reach."""

    node: str
    driver: str
    total: int
    allocated: int
    available: int
    unavailable: int
    problem: str
    unhealthy: int = 0
    why: tuple[str, ...] = ()

    @property
    def utilisation(self) -> float:
        """Fraction of the devices that is allocated.

        From 0 to 1; 0 without devices.
        """
        return self.allocated / self.total if self.total else 0.0


class DeviceRow(msgspec.Struct, frozen=True):
    """A device with its state, its holder and its problems."""

    driver: str
    pool: str
    device: str
    node: str
    state: str  # free, allocated, shared, blocked (its counters are used up), tainted, unhealthy, unusable
    claim: str
    used_by: tuple[str, ...]
    attributes: dict[str, str]
    capacity: dict[str, str]
    partial: PartialUse = WHOLE
    taints: tuple[str, ...] = ()  # taints that exclude new pods, with the rules that add them
    unhealthy: str | None = None  # the driver's message if the device is unhealthy, otherwise None

    @property
    def problem(self) -> str:
        """All problems of the device as text: taints and health.

        Empty if there are none.
        """
        why = f": {self.unhealthy}" if self.unhealthy else ""
        health = (say(CausePhrase.UNHEALTHY, why=why),) if self.unhealthy is not None else ()
        return "; ".join((*self.taints, *health))


class ClaimRow(msgspec.Struct, frozen=True):
    """A claim with its requests, devices and users."""

    namespace: str
    name: str
    state: str  # as kubectl shows it
    wants: str
    devices: tuple[str, ...]
    nodes: tuple[str, ...]
    used_by: tuple[str, ...]
    created: str


UsageRow = PoolRow | NodeRow | DeviceRow | ClaimRow | GroupRow


def usage(snapshot: Snapshot, what: str, *, driver: str = "", namespace: str = "") -> Sequence[UsageRow]:
    """Return the rows for `what`: pools, nodes, claims, groups (PodGroups), or devices for any other value.

    `driver` and `namespace` limit the rows; empty means all.
    """
    match what:
        case "pools":
            return pool_rows(snapshot, driver)
        case "nodes":
            return node_rows(snapshot, driver)
        case "claims":
            return claim_rows(snapshot, namespace, driver)
        case "groups":
            return group_rows(snapshot, namespace)
        case _:
            return device_rows(snapshot, driver)


def pool_rows(snapshot: Snapshot, driver: str = "") -> list[PoolRow]:
    """Return a row for each pool, counted from slices and claims.

    An empty driver means all drivers.
    """
    by_device = _by_pool(device_rows(snapshot, driver))
    rows = []
    for name, use in snapshot.uses.items():
        if driver in ("", name.driver):
            pool, devices = count_use(use), by_device.get(name, [])
            rows.append(
                PoolRow(
                    pool.driver,
                    pool.name,
                    pool.node or "",
                    pool.total,
                    pool.allocated,
                    pool.available,
                    pool.unavailable,
                    pool.slices,
                    pool.generation,
                    pool.problem or "",
                    unhealthy=sum(row.state == "unhealthy" for row in devices),
                    why=_why(devices),
                )
            )
    return rows


def _by_pool(rows: Iterable[DeviceRow]) -> dict[PoolName, list[DeviceRow]]:
    found: dict[PoolName, list[DeviceRow]] = {}
    for row in rows:
        found.setdefault(PoolName(row.driver, row.pool), []).append(row)
    return found


def _why(devices: Sequence[DeviceRow]) -> tuple[str, ...]:
    """Return texts about why devices are unavailable: tainted, unhealthy or blocked.

    One text per reason, with the count of devices.
    """
    found = (
        (CausePhrase.COUNT_TAINTED, ["; ".join(row.taints) for row in devices if row.taints]),
        (CausePhrase.COUNT_UNHEALTHY, [row.unhealthy for row in devices if row.unhealthy is not None]),
        (CausePhrase.COUNT_BLOCKED, ["" for row in devices if row.state == "blocked"]),
    )
    return tuple(counted(whys, phrase) for phrase, whys in found if whys)


def node_rows(snapshot: Snapshot, driver: str = "") -> list[NodeRow]:
    """Return a row for each node and driver, counted from devices.

    An empty driver means all drivers. The node is empty for devices that belong to none.
    """
    groups: dict[tuple[str, str], list[DeviceRow]] = {}
    for row in device_rows(snapshot, driver):
        groups.setdefault((row.node, row.driver), []).append(row)
    pools = {PoolName(row.driver, row.pool): row.problem for row in pool_rows(snapshot, driver)}
    return [
        NodeRow(
            node,
            name,
            len(rows),
            sum(bool(row.claim) for row in rows),
            sum(row.state == "free" for row in rows),
            sum(not row.claim and row.state != "free" for row in rows),
            "; ".join(sorted({pools[PoolName(row.driver, row.pool)] for row in rows} - {""})),
            unhealthy=sum(row.state == "unhealthy" for row in rows),
            why=_why(rows),
        )
        for (node, name), rows in sorted(groups.items())
    ]


def answered_rows(requests: Iterable[ResourcePoolStatusRequest]) -> list[PoolRow]:
    """Return a row for each pool in the status of these ResourcePoolStatusRequests.

    Requests without a status give none.
    """
    return [_answered(pool) for request in requests for pool in (request.status.pools if request.status else ())]


def _answered(pool: PoolStatus) -> PoolRow:
    return PoolRow(
        pool.driver,
        pool.poolName,
        pool.nodeName or "",
        pool.totalDevices or 0,
        pool.allocatedDevices or 0,
        pool.availableDevices or 0,
        pool.unavailableDevices or 0,
        pool.resourceSliceCount or 0,
        pool.generation,
        pool.validationError or "",
        why=_unknown(pool.unavailableDevices or 0) if not pool.validationError else (),
    )


def _unknown(unavailable: int) -> tuple[str, ...]:
    """Return the text that devices are unavailable for an unknown reason; empty if none are unavailable."""
    return (say(CausePhrase.COUNT_UNAVAILABLE, count=unavailable),) if unavailable else ()


def device_rows(snapshot: Snapshot, driver: str = "") -> list[DeviceRow]:
    """Return a row for each published device, with the claim that holds it.

    An empty driver means all drivers. Of several claims, the last is given. The claim is empty if there is none.
    """
    rows: dict[DeviceId, DeviceRow] = {}
    for one in Hardware(snapshot.pools).devices:
        if driver not in ("", one.id.driver):
            continue
        use = snapshot.uses[PoolName(one.id.driver, one.id.pool)]
        claim = next(reversed(snapshot.holders.claims(one.id)), None)
        rows[one.id] = DeviceRow(
            *one.id,
            node=one.node,
            state=_STATES[use.state(one.device.name)],
            claim=f"{claim.metadata.namespace}/{claim.metadata.name}" if claim else "",
            used_by=consumers(claim) if claim else (),
            attributes={n: str(v) for named in one.view.attributes.values() for n, v in named.items()},
            capacity={n: str(v) for named in one.view.capacity.values() for n, v in named.items()},
            partial=partial_use(use, one.device),
            taints=taints_told(snapshot, one.id, one.device),
            unhealthy=snapshot.unhealthy.get(one.id),
        )
    return [*rows.values()]


def claim_rows(snapshot: Snapshot, namespace: str = "", driver: str = "") -> list[ClaimRow]:
    """Return a row for each claim, sorted by namespace and name.

    An empty namespace or driver means all. With a driver, only claims with a device of the driver are returned.
    """
    nodes = {one.id: one.node for one in Hardware(snapshot.pools).devices}
    rows = []
    for claim in snapshot.all(ResourceClaim):
        held = _devices(claim)
        if namespace not in ("", claim.metadata.namespace) or (driver and all(d.driver != driver for d in held)):
            continue
        rows.append(
            ClaimRow(
                namespace=claim.metadata.namespace,
                name=claim.metadata.name,
                state=_state(claim),
                wants=_wants(claim),
                devices=tuple(str(device) for device in held),
                nodes=tuple(sorted({nodes.get(device, "") for device in held} - {""})),
                used_by=consumers(claim),
                created=claim.metadata.creationTimestamp or "",
            )
        )
    return sorted(rows, key=lambda row: (row.namespace, row.name))


def _devices(claim: ResourceClaim) -> list[DeviceId]:
    allocation = claim.status.allocation
    return [DeviceId(r.driver, r.pool, r.device) for r in allocation.devices.results] if allocation else []


def _state(claim: ResourceClaim) -> str:
    """Return the state of a claim as kubectl shows it, such as `allocated,reserved`."""
    marks = ["deleted"] if claim.metadata.deletionTimestamp is not None else []
    marks += ["allocated"] if claim.status.allocation is not None else []
    marks += ["reserved"] if claim.status.reservedFor else []
    return ",".join(marks) or "pending"


def _wants(claim: ResourceClaim) -> str:
    """Return the requests of a claim as text: `2 gpu`, or `1 big | 2 small` with alternatives."""
    requests: dict[str, list[str]] = {}
    for name, ask in asks_of(claim, Snapshot()).items():
        number = "all" if ask.spec.allocationMode == "All" else str(max(ask.spec.count, 1))
        requests.setdefault(name.partition("/")[0], []).append(f"{number} {ask.class_name}")
    return ", ".join(" | ".join(alternatives) for alternatives in requests.values())
