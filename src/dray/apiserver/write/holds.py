"""Which claim holds which device, kept in the same commit as the claim: nothing is given away twice.

Two schedulers that decide at the same moment write two different claims, and no version of either says that the other
took the device. So what an allocation takes is noted under keys of its own, which are written with the claim or not at
all. A whole device has a key that must not exist before. A device with shares has a key that lists them, and a set of
counters one that lists the devices that draw on it; both may only be written by somebody who has seen the last state, so
that the sum stays within what is published, and devices that do not go together do not meet. It holds across servers that
share an etcd.

A device that no driver publishes for a node of the cluster is only a name, which Kubernetes lets any number of claims
have. It is noted nevertheless who has it: drivers delete slices and create them again, and a scheduler may have decided
before it heard of that. So a name becomes a device when its pool is published, and nobody gets more of a pool that was
withdrawn while claims have devices of it. Left out: admin access.
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
_COUNTERS = "counters:"  # no device has such a name


class Overcommitted(Exception):
    """An allocation takes what is not there; the text says what."""


class HeldShare(msgspec.Struct, frozen=True):
    """A share of a device."""

    claim: str
    consumed: dict[str, str]


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands under the key of a device: who has it, or its shares; and the counter sets that it draws on.

    Only a device that was given away while nobody published it has several claims, or a claim beside shares.
    """

    claim: str = ""
    shares: dict[str, HeldShare] = {}
    sets: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # further claims that have the whole device
    unpublished: bool = False  # nobody has published it since it was given away

    @classmethod
    def of(cls, value: bytes | None) -> Hold:
        """A device that draws on nothing and has no shares is most common: its key has just the claim's uid."""
        if value is None:
            return cls()
        return _hold_of.decode(value) if value.startswith(b"{") else cls(value.decode())

    def value(self) -> bytes | None:
        """How it is stored; None where nobody has the device."""
        if self.shares or (self.claim and (self.sets or self.unpublished or self.others)):
            return _encode(self)
        return self.claim.encode() or None

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that have the whole device."""
        return (self.claim, *self.others) if self.claim else ()

    def of_claims(self, claims: tuple[str, ...]) -> Hold:
        """The same device, of these claims; it draws on nothing once nobody has it."""
        is_held = claims or self.shares
        return replace(self, claim=claims[0] if claims else "", others=claims[1:], sets=self.sets if is_held else ())


_FREE = Hold()
_hold_of = msgspec.json.Decoder(Hold)
_names_of = msgspec.json.Decoder(list[str])
_encode = msgspec.json.Encoder(order="deterministic").encode
_UNPUBLISHED = b'"unpublished":true'


class DeviceHolds:
    """What must be written along with a claim."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._pools = PublishedPools(cache)

    def ops(self, old: Holding | None, new: Holding | None) -> list[Op]:
        """The keys to write when a claim or a slice goes from one state to another. Raises Overcommitted."""
        if isinstance(new, ResourceSlice):
            return self._published(new)
        if isinstance(old, ResourceSlice):
            return []
        claim = new or old
        had = old.status.allocation if old is not None else None
        has = new.status.allocation if new is not None else None
        if had is has or claim is None:  # most often: there is none yet
            return []
        before, after = taken_by(had), taken_by(has)
        if before == after:
            return []
        tally = _Tally(self._cache, self._pools, claim.metadata.uid)
        tally.give_back(before, after)
        tally.take(after, before)
        return tally.ops()

    def _published(self, slice_: ResourceSlice) -> list[Op]:
        """The keys to write with a slice: what claims have of its pool are devices from now on."""
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
        """What makes the keys agree with the claims again, after some of either were lost."""
        wanted: dict[str, bytes] = {}
        for version in self._cache.list(CLAIMS.prefix).versions:
            claim: ResourceClaim = version.object
            tally = _Tally(self._cache, self._pools, claim.metadata.uid, wanted)
            tally.note(taken_by_claim(claim))
            wanted |= {op.key: op.value for op in tally.ops() if op.value is not None}
        held = {version.key: version.value for version in self._cache.list(PREFIX).versions}
        return [Op(key, wanted.get(key)) for key in sorted({*wanted, *held}) if wanted.get(key) != held.get(key)]


class _Tally:
    """The keys that the change of one claim is about: as they are, and as they will be.

    With `known`, those are the keys as they are, and nothing is in the cache.
    """

    def __init__(self, cache: Cache, pools: PublishedPools, uid: str, known: dict[str, bytes] | None = None) -> None:
        self._cache = cache
        self._pools = pools
        self._uid = uid
        self._known = known
        self._ops: dict[str, Op] = {}

    def ops(self) -> list[Op]:
        return [self._ops[key] for key in sorted(self._ops)]

    def give_back(self, before: Taken, after: Taken) -> None:
        """Free what a claim has no longer."""
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
        """Note that a device has one holder less; after the last it draws on nothing."""
        self._put(device, new)
        if new.value() is None:
            self._stop_drawing(device, old)

    def take(self, after: Taken, before: Taken = NOTHING) -> None:
        """Note what a claim has in addition. Raises Overcommitted."""
        taken = after.beyond(before)
        for device in taken.devices:
            self._take_device(device)
        for share in taken.shares:
            self._take_share(share)

    def note(self, taken: Taken) -> None:
        """Note what a claim has, also where that contradicts what others have."""
        for device in taken.devices:
            self._note_one(Taken((device,)))
        for share in taken.shares:
            self._note_one(Taken((), (share,)))

    def _note_one(self, taken: Taken) -> None:
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
        """Raise Overcommitted if claims have devices of a pool from when it was published, as it may be again."""
        held = self._cache.list(_pool_key(*device[:2])).versions if self._known is None else ()
        if not all(_is_name(version.value) for version in held):
            raise Overcommitted(f"pool {device.driver}/{device.pool} is not published, and claims have devices of it")

    def _add_claim(self, device: DeviceId) -> None:
        """Note that the claim has a device, whoever else has it."""
        hold = self._hold(device).of_claims((*self._hold(device).claims, self._uid))
        self._put(device, replace(hold, unpublished=not self._pools.is_real(device)))

    def _add_share(self, share: Share) -> None:
        """Note that the claim has a share of a device, however much is left of it."""
        device, hold = share.device, self._hold(share.device)
        unpublished = not self._pools.is_real(device)
        self._put(device, replace(hold, shares=self._with(hold, share), unpublished=unpublished))

    def _with(self, hold: Hold, share: Share) -> dict[str, HeldShare]:
        return {**hold.shares, share.share: HeldShare(self._uid, dict(share.consumed))}

    # Counters.

    def _draw(self, device: DeviceId) -> tuple[str, ...]:
        """Let a device draw on its counters; answers the counter sets. Raises Overcommitted."""
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
        """Devices that draw on a counter set and were given away when that was not known, as nobody published them."""
        found = set()
        for name in self._pools.drawing(device, counter_set):
            value = self._value(_key(device._replace(device=name)))
            if value is not None and counter_set not in Hold.of(value).sets:
                found.add(name)
        return found

    def _go_together(self, device: DeviceId, counter_set: str, names: Iterable[str]) -> bool:
        """Whether devices that draw on a counter set have a group in common, or none has any."""
        groups = [
            set(drawn.compatibilityGroups)
            for name in names
            for drawn in self._pools.device(device._replace(device=name)).consumesCounters
            if drawn.counterSet == counter_set
        ]
        return not any(groups) or bool(set.intersection(*groups))

    def _drawn(self, device: DeviceId, counter_set: str, counter: str, names: Iterable[str]) -> Quantity:
        """What devices of a pool draw of a counter together."""
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
        """Take a device out of the counter sets that it drew on, whatever is published of it now."""
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
        if key in self._ops:
            return self._ops[key].value
        if self._known is not None:
            return self._known.get(key)
        version = self._cache.get(key)
        return version.value if version is not None else None

    def _write(self, key: str, value: bytes | None) -> None:
        """Write a key, provided that nobody else has done so in the meantime."""
        version = self._cache.get(key) if self._known is None else None
        self._ops[key] = Op(key, value, version.revision if version is not None else 0)


def _is_name(value: bytes | None) -> bool:
    """Whether what stands under a key is the hold of a device that has not been published since it was given away."""
    return value is not None and _UNPUBLISHED in value


def _key(device: DeviceId) -> str:
    return PREFIX + "/".join(device)


def _pool_key(driver: str, pool: str) -> str:
    """What the keys of a pool's devices and counters begin with."""
    return f"{PREFIX}{driver}/{pool}/"


def _counters_key(device: DeviceId, counter_set: str) -> str:
    return f"{_pool_key(device.driver, device.pool)}{_COUNTERS}{counter_set}"
