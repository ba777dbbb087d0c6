"""Device holds: which claim has which device, written in one commit with the claim, to prevent double allocation.

Two schedulers that decide at the same moment write two different claims, so the revisions of the claims cannot show
the conflict. Therefore each allocation is also recorded under keys for its devices, committed together with the
claim. The key of a whole device must not exist before. The key of a device with shares lists the shares, and the key
of a counter set lists the devices that consume its counters. Both may only be changed by a writer that has seen their
last revision, so sums stay within the published capacity, and devices of incompatible groups are not combined. This
also holds for several servers that share etcd.

A device that no driver publishes for a node of the cluster is only a name, and Kubernetes lets any number of claims
have the same name. Its holders are recorded nevertheless: drivers delete and recreate slices, and a scheduler may
have decided before it saw the change. Thus a name becomes a device when its pool is published, and no further devices
of a withdrawn pool are allocated while claims have devices of it. Admin access is not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from dray.api.allocations import NOTHING, DeviceId, Share, Taken, taken_by, taken_by_claim
from dray.api.quantity import ZERO, Quantity
from dray.api.resources import BY_TYPE
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.apiserver.write.published import PublishedPools
from dray.store import Cache, Op

PREFIX = "deviceholds/"
CLAIMS = BY_TYPE[ResourceClaim]
SLICES = BY_TYPE[ResourceSlice]
Holding = ResourceClaim | ResourceSlice
_COUNTERS = "counters:"  # no device has a name with this prefix


class Overcommitted(Exception):
    """An allocation takes a device, capacity or counter that is not available. The text says which."""


class HeldShare(msgspec.Struct, frozen=True):
    """Share of a device: its claim and the consumed capacity."""

    claim: str
    consumed: dict[str, str]


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """Value of a device's key: the claim or shares that have the device, and the counter sets that it consumes.

    Several claims, or a claim in addition to shares, are possible only if the device was allocated while it was not
    published.
    """

    claim: str = ""
    shares: dict[str, HeldShare] = {}
    sets: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # further claims that have the whole device
    unpublished: bool = False  # not published since the device was allocated

    @classmethod
    def of(cls, value: bytes | None) -> Hold:
        """Return the hold in the value of a key; None gives a free device.

        A hold with nothing but a claim is stored as the claim's UID.
        """
        if value is None:
            return cls()
        return _hold_of.decode(value) if value.startswith(b"{") else cls(value.decode())

    def value(self) -> bytes | None:
        """Return the stored form, or None if no claim has the device."""
        if self.shares or (self.claim and (self.sets or self.unpublished or self.others)):
            return _encode(self)
        return self.claim.encode() or None

    @property
    def claims(self) -> tuple[str, ...]:
        """UIDs of the claims that have the whole device; empty if none has."""
        return (self.claim, *self.others) if self.claim else ()

    def of_claims(self, claims: tuple[str, ...]) -> Hold:
        """Return this hold with other claims. Its counter sets are dropped if neither claims nor shares remain."""
        is_held = claims or self.shares
        return replace(self, claim=claims[0] if claims else "", others=claims[1:], sets=self.sets if is_held else ())


_FREE = Hold()
_hold_of = msgspec.json.Decoder(Hold)
_names_of = msgspec.json.Decoder(list[str])
_encode = msgspec.json.Encoder(order="deterministic").encode
_UNPUBLISHED = b'"unpublished":true'


class DeviceHolds:
    """Computes the writes of device holds that belong to the write of a claim or slice."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._pools = PublishedPools(cache)

    def ops(self, old: Holding | None, new: Holding | None) -> list[Op]:
        """Return the writes of device holds when a claim or slice changes from `old` to `new`.

        `old` is None for a new object, `new` for a deleted one. Empty if the allocation is unchanged. Raises
        Overcommitted if a device, capacity or counter does not suffice.
        """
        if isinstance(new, ResourceSlice):
            return self._published(new)
        if isinstance(old, ResourceSlice):
            return []
        claim = new or old
        had = old.status.allocation if old is not None else None
        has = new.status.allocation if new is not None else None
        if had is has or claim is None:  # most often, both are None
            return []
        before, after = taken_by(had), taken_by(has)
        if before == after:
            return []
        tally = _Tally(self._cache, self._pools, claim.metadata.uid)
        tally.give_back(before, after)
        tally.take(after, before)
        return tally.ops()

    def _published(self, slice_: ResourceSlice) -> list[Op]:
        """Return the writes when a slice is published: holds of the pool's names become holds of devices."""
        spec = slice_.spec
        if not self._pools.has_node(spec.nodeName or ""):
            return []
        found = []
        for version in self._cache.list(_pool_key(spec.driver, spec.pool.name)).versions:
            if _is_name(version.value):
                value = replace(Hold.of(version.value), unpublished=False).value()
                found.append(Op(version.key, value, version.revision))
        return found

    def repairs(self) -> list[Op]:
        """Return the writes that make the holds match the claims again, after claims or holds were lost."""
        wanted: dict[str, bytes] = {}
        for version in self._cache.list(CLAIMS.prefix).versions:
            claim: ResourceClaim = version.object
            tally = _Tally(self._cache, self._pools, claim.metadata.uid, wanted)
            tally.note(taken_by_claim(claim))
            wanted |= {op.key: op.value for op in tally.ops() if op.value is not None}
        held = {version.key: version.value for version in self._cache.list(PREFIX).versions}
        return [Op(key, wanted.get(key)) for key in sorted({*wanted, *held}) if wanted.get(key) != held.get(key)]


class _Tally:
    """Device holds changed by one claim: current values and pending writes.

    With `known`, current values come from that mapping instead of the cache.
    """

    def __init__(self, cache: Cache, pools: PublishedPools, uid: str, known: dict[str, bytes] | None = None) -> None:
        self._cache = cache
        self._pools = pools
        self._uid = uid
        self._known = known
        self._ops: dict[str, Op] = {}

    def ops(self) -> list[Op]:
        """Return the pending writes, sorted by key."""
        return [self._ops[key] for key in sorted(self._ops)]

    def give_back(self, before: Taken, after: Taken) -> None:
        """Release the devices and shares in `before` that are not in `after`."""
        gone = before.beyond(after)
        for device in gone.devices:
            hold = self._hold(device)
            if self._uid in hold.claims:
                left = tuple(claim for claim in hold.claims if claim != self._uid)
                self._change(device, hold, hold.of_claims(left))
        for share in gone.shares:
            hold = self._hold(share.device)
            if share.share in hold.shares:
                shares = {name: one for name, one in hold.shares.items() if name != share.share}
                self._change(share.device, hold, replace(hold, shares=shares))

    def _change(self, device: DeviceId, old: Hold, new: Hold) -> None:
        """Replace the hold of a device by one with a holder less.

        Without holders, the device is removed from its counter sets.
        """
        self._put(device, new)
        if new.value() is None:
            self._stop_drawing(device, old)

    def take(self, after: Taken, before: Taken = NOTHING) -> None:
        """Record the devices and shares in `after` that are not in `before`. Raises Overcommitted."""
        taken = after.beyond(before)
        for device in taken.devices:
            self._take_device(device)
        for share in taken.shares:
            self._take_share(share)

    def note(self, taken: Taken) -> None:
        """Record the devices and shares of a claim, even if they contradict other claims."""
        for device in taken.devices:
            self._note_one(Taken((device,)))
        for share in taken.shares:
            self._note_one(Taken((), (share,)))

    def _note_one(self, taken: Taken) -> None:
        """Record one device or share. If it is overcommitted, it is recorded in addition to the present holders."""
        before = dict(self._ops)
        try:
            self.take(taken)
        except Overcommitted:
            self._ops = before
            for device in taken.devices:
                self._add_claim(device)
            for share in taken.shares:
                self._add_share(share)

    def _take_device(self, device: DeviceId) -> None:
        """Record a whole device. Does nothing if the claim already has it.

        Raises Overcommitted if another claim has the device or counters do not suffice.
        """
        hold = self._hold(device)
        if self._uid in hold.claims:
            return
        if not self._pools.is_real(device):
            self._check_withdrawn(device)
            self._add_claim(device)
            return
        if hold != _FREE:
            raise Overcommitted(f"device {device} is allocated to another claim")
        self._put(device, Hold(self._uid, sets=self._draw(device)))

    def _take_share(self, share: Share) -> None:
        """Record a share of a device. Raises Overcommitted if the device or the remaining capacity is not available."""
        device, hold = share.device, self._hold(share.device)
        if not self._pools.is_real(device):
            self._check_withdrawn(device)
            self._add_share(share)
            return
        if hold.claim:
            raise Overcommitted(f"device {device} is allocated to another claim")
        for name, much in share.consumed:
            capacity = self._pools.device(device).capacity.get(name)
            others = (Quantity.parse(other.consumed.get(name, "0")) for other in hold.shares.values())
            if capacity is not None and sum(others, Quantity.parse(much)) > Quantity.parse(capacity.value):
                raise Overcommitted(f"device {device} has too little {name} left")
        sets = hold.sets or self._draw(device)
        self._put(device, Hold(shares=self._with(hold, share), sets=sets))

    def _check_withdrawn(self, device: DeviceId) -> None:
        """Raise Overcommitted if the pool is withdrawn while claims have devices of it, as it may be published again."""
        held = self._cache.list(_pool_key(*device[:2])).versions if self._known is None else ()
        if not all(_is_name(version.value) for version in held):
            raise Overcommitted(f"pool {device.driver}/{device.pool} is not published, and claims have devices of it")

    def _add_claim(self, device: DeviceId) -> None:
        """Add the claim to the holders of a device, without checking the others."""
        hold = self._hold(device).of_claims((*self._hold(device).claims, self._uid))
        self._put(device, replace(hold, unpublished=not self._pools.is_real(device)))

    def _add_share(self, share: Share) -> None:
        """Add a share to a device, without checking the remaining capacity."""
        device, hold = share.device, self._hold(share.device)
        unpublished = not self._pools.is_real(device)
        self._put(device, replace(hold, shares=self._with(hold, share), unpublished=unpublished))

    def _with(self, hold: Hold, share: Share) -> dict[str, HeldShare]:
        return {**hold.shares, share.share: HeldShare(self._uid, dict(share.consumed))}

    # Counters.

    def _draw(self, device: DeviceId) -> tuple[str, ...]:
        """Record that a device consumes its counters. Returns the names of the counter sets, if any.

        Raises Overcommitted if a counter does not suffice or the device is incompatible with others of a counter set.
        """
        consumes = self._pools.device(device).consumesCounters
        if not consumes:
            return ()
        for drawn in consumes:
            key = _counters_key(device, drawn.counterSet)
            listed = {*self._names(key), device.device}
            names = listed | self._unlisted(device, drawn.counterSet)
            totals = self._pools.counters(device, drawn.counterSet)
            for counter in drawn.counters:
                if counter in totals and self._drawn(device, drawn.counterSet, counter, names) > totals[counter]:
                    where = f"counter set {drawn.counterSet} in pool {device.driver}/{device.pool}"
                    raise Overcommitted(f"counter {counter} of {where} has too little left")
            if not self._go_together(device, drawn.counterSet, names):
                raise Overcommitted(f"device {device} does not go with others that draw on {drawn.counterSet}")
            self._write(key, _encode(sorted(listed)))
        return tuple(drawn.counterSet for drawn in consumes)

    def _unlisted(self, device: DeviceId, counter_set: str) -> set[str]:
        """Return allocated devices that consume a counter set but are not listed for it.

        They were not published when they were allocated.
        """
        found = set()
        for name in self._pools.drawing(device, counter_set):
            value = self._value(_key(device._replace(device=name)))
            if value is not None and counter_set not in Hold.of(value).sets:
                found.add(name)
        return found

    def _go_together(self, device: DeviceId, counter_set: str, names: Iterable[str]) -> bool:
        """Return whether the devices of a counter set have a compatibility group in common, or none has any group."""
        groups = [
            set(drawn.compatibilityGroups)
            for name in names
            for drawn in self._pools.device(device._replace(device=name)).consumesCounters
            if drawn.counterSet == counter_set
        ]
        return not any(groups) or bool(set.intersection(*groups))

    def _drawn(self, device: DeviceId, counter_set: str, counter: str, names: Iterable[str]) -> Quantity:
        """Return how much of a counter the named devices consume together."""
        return sum(
            (
                Quantity.parse(drawn.counters[counter].value)
                for name in names
                for drawn in self._pools.device(device._replace(device=name)).consumesCounters
                if drawn.counterSet == counter_set and counter in drawn.counters
            ),
            ZERO,
        )

    def _stop_drawing(self, device: DeviceId, hold: Hold) -> None:
        """Remove a device from the counter sets recorded in its hold, whatever is published now."""
        for counter_set in hold.sets:
            key = _counters_key(device, counter_set)
            left = [name for name in self._names(key) if name != device.device]
            self._write(key, _encode(left) if left else None)

    # Keys.

    def _hold(self, device: DeviceId) -> Hold:
        return Hold.of(self._value(_key(device)))

    def _put(self, device: DeviceId, hold: Hold) -> None:
        self._write(_key(device), hold.value())

    def _names(self, key: str) -> list[str]:
        value = self._value(key)
        return _names_of.decode(value) if value is not None else []

    def _value(self, key: str) -> bytes | None:
        """Return the value of a key, including pending writes, or None if it has none."""
        if key in self._ops:
            return self._ops[key].value
        if self._known is not None:
            return self._known.get(key)
        version = self._cache.get(key)
        return version.value if version is not None else None

    def _write(self, key: str, value: bytes | None) -> None:
        """Add a write of a key, on condition that its revision is unchanged."""
        version = self._cache.get(key) if self._known is None else None
        self._ops[key] = Op(key, value, version.revision if version is not None else 0)


def _is_name(value: bytes | None) -> bool:
    """Return whether a value is the hold of a device that has not been published since it was allocated."""
    return value is not None and _UNPUBLISHED in value


def _key(device: DeviceId) -> str:
    return PREFIX + "/".join(device)


def _pool_key(driver: str, pool: str) -> str:
    """Return the common prefix of the keys of a pool's devices and counter sets."""
    return f"{PREFIX}{driver}/{pool}/"


def _counters_key(device: DeviceId, counter_set: str) -> str:
    return f"{_pool_key(device.driver, device.pool)}{_COUNTERS}{counter_set}"
