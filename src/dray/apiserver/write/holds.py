"""Which claim holds which device, kept in the same commit as the claim: nothing is given away twice.

Two schedulers that decide at the same moment write two different claims, and no version of either says that the other
took the device. So what an allocation takes is noted under keys of its own, which are written with the claim or not at
all. A whole device has a key that must not exist before. A device with shares has a key that lists them, and a set of
counters one that lists the devices that draw on it; both may only be written by somebody who has seen the last state, so
that the sum stays within what is published, and devices that do not go together do not meet. It holds across servers that share an etcd. Left out: admin access, and
devices that no driver publishes for a node of the cluster: those are only names, which Kubernetes lets anybody write.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from dray.api.allocations import NOTHING, DeviceId, Share, Taken, taken_by, taken_by_claim
from dray.api.quantity import ZERO, Quantity
from dray.api.resources import BY_TYPE
from dray.api.types.resource import ResourceClaim
from dray.apiserver.write.published import PublishedPools
from dray.store import Cache, Op

PREFIX = "deviceholds/"
CLAIMS = BY_TYPE[ResourceClaim]
_COUNTERS = "counters:"  # no device has such a name


class Overcommitted(Exception):
    """An allocation takes what is not there; the text says what."""


class HeldShare(msgspec.Struct, frozen=True):
    """A share of a device."""

    claim: str
    consumed: dict[str, str]


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stands under the key of a device: who has it, or its shares; and the counter sets that it draws on."""

    claim: str = ""
    shares: dict[str, HeldShare] = {}
    sets: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: bytes | None) -> Hold:
        """A device that draws on nothing and has no shares is most common: its key has just the claim's uid."""
        if value is None:
            return cls()
        return _hold_of.decode(value) if value.startswith(b"{") else cls(value.decode())

    def value(self) -> bytes | None:
        """How it is stored; None where nobody has the device."""
        if self.shares or (self.claim and self.sets):
            return _encode(self)
        return self.claim.encode() or None


_hold_of = msgspec.json.Decoder(Hold)
_names_of = msgspec.json.Decoder(list[str])
_encode = msgspec.json.Encoder(order="deterministic").encode


class DeviceHolds:
    """What must be written along with a claim."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._pools = PublishedPools(cache)

    def ops(self, old: ResourceClaim | None, new: ResourceClaim | None) -> list[Op]:
        """The keys to write when a claim goes from one state to another. Raises Overcommitted."""
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
            if hold.claim == self._uid:
                self._put(device, Hold())
                self._stop_drawing(device, hold)
        for share in gone.shares:
            hold = self._hold(share.device)
            if share.share in hold.shares:
                left = {name: one for name, one in hold.shares.items() if name != share.share}
                self._put(share.device, replace(hold, shares=left) if left else Hold())
                if not left:
                    self._stop_drawing(share.device, hold)

    def take(self, after: Taken, before: Taken = NOTHING) -> None:
        """Note what a claim has in addition. Raises Overcommitted."""
        taken = after.beyond(before)
        for device in taken.devices:
            key = _key(device)
            value = self._value(key)
            if (value is not None and Hold.of(value).claim == self._uid) or not self._pools.is_real(device):
                continue
            if value is not None:
                raise Overcommitted(f"device {device} is allocated to another claim")
            self._write(key, Hold(self._uid, sets=self._draw(device)).value())
        for share in taken.shares:
            if self._pools.is_real(share.device):
                self._take_share(share)

    def note(self, taken: Taken) -> None:
        """Note what a claim has, as far as it does not contradict what others have."""
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

    def _take_share(self, share: Share) -> None:
        hold = self._hold(share.device)
        if hold.claim:
            raise Overcommitted(f"device {share.device} is allocated to another claim")
        for name, much in share.consumed:
            capacity = self._pools.device(share.device).capacity.get(name)
            others = (Quantity.parse(other.consumed.get(name, "0")) for other in hold.shares.values())
            if capacity is not None and sum(others, Quantity.parse(much)) > Quantity.parse(capacity.value):
                raise Overcommitted(f"device {share.device} has too little {name} left")
        shares = {**hold.shares, share.share: HeldShare(self._uid, dict(share.consumed))}
        self._put(share.device, Hold(shares=shares, sets=hold.sets if hold.shares else self._draw(share.device)))

    # Counters.

    def _draw(self, device: DeviceId) -> tuple[str, ...]:
        """Let a device draw on its counters; answers the counter sets. Raises Overcommitted."""
        consumes = self._pools.device(device).consumesCounters
        if not consumes:
            return ()
        for drawn in consumes:
            key = _counters_key(device, drawn.counterSet)
            names = sorted({*self._names(key), device.device})
            totals = self._pools.counters(device, drawn.counterSet)
            for counter in drawn.counters:
                if counter in totals and self._drawn(device, drawn.counterSet, counter, names) > totals[counter]:
                    where = f"counter set {drawn.counterSet} in pool {device.driver}/{device.pool}"
                    raise Overcommitted(f"counter {counter} of {where} has too little left")
            if not self._go_together(device, drawn.counterSet, names):
                raise Overcommitted(f"device {device} does not go with others that draw on {drawn.counterSet}")
            self._write(key, _encode(names))
        return tuple(drawn.counterSet for drawn in consumes)

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


def _key(device: DeviceId) -> str:
    return PREFIX + "/".join(device)


def _counters_key(device: DeviceId, counter_set: str) -> str:
    return f"{PREFIX}{device.driver}/{device.pool}/{_COUNTERS}{counter_set}"
