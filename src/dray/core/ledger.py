"""Which claim holds which devices and shares: what the claims say, and what was promised but is not written yet.

The allocator's index knows devices as free or taken; the ledger knows by whom, so that a device is free when the last
holder lets go. A share is held like a device. Left out: which devices to promise (`devices`).
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TypeVar

from dray.allocator import Index
from dray.api.allocations import NOTHING, DeviceId, Share, Taken
from dray.core.journal import RecordInverse

V = TypeVar("V")


class DeviceLedger:
    """Which claim holds which devices: what the claims say, and what was promised but is not written yet.

    Two claims may hold a device here for a while: another scheduler wrote what this one has promised too. It is free
    when the last of them lets go. A promise ends with the news of the claim that has the devices; as that may be skipped
    where a watch starts over, it also ends with news of a claim without devices that is younger than what was written.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._written: dict[str, Taken] = {}
        self._promised: dict[str, Taken] = {}
        self._kept: dict[str, int] = {}  # promises that were written: the version of the claim
        self._shared: Counter[DeviceId | Share] = Counter()  # further holders of a device, beyond the first
        self._taken: set[DeviceId | Share] = set()
        self.changes = 0  # of what is held
        self.record: RecordInverse | None = None  # is given the inverse of each change while something is tried

    def written(self, uid: str, taken: Taken | None, version: int = 0) -> bool:
        """What the API server says a claim holds, None while it is not allocated; True when devices became free."""
        before = self._held(uid)
        if taken is None:
            if uid not in self._written and uid not in self._promised:
                return False  # most news of a claim come before it has devices
            self._note(uid)
            self._written.pop(uid, None)
            if uid in self._kept and version >= self._kept[uid]:
                self._end_promise(uid)
        else:
            self._note(uid)
            self._written[uid] = taken
            self._end_promise(uid)
        return self._settle(before, self._held(uid))

    def kept(self, uid: str, version: int) -> None:
        """An open promise was written; the news of it may still be on its way, or never come."""
        self._note(uid)
        self._kept[uid] = version

    def promise(self, uid: str, taken: Taken) -> None:
        self._note(uid)
        before = self._held(uid)
        self._promised[uid] = taken
        self._settle(before, self._held(uid))

    def forget(self, uid: str) -> bool:
        """Take a promise back that was not written; True when devices became free."""
        self._note(uid)
        before = self._held(uid)
        self._end_promise(uid)
        return self._settle(before, self._held(uid))

    def _note(self, uid: str) -> None:
        """Record what is known of a claim, so that it can be restored."""
        if self.record is not None:
            known = self._written.get(uid), self._promised.get(uid), self._kept.get(uid)
            self.record(partial(self._restore, uid, *known))

    def _restore(self, uid: str, written: Taken | None, promised: Taken | None, kept: int | None) -> None:
        before = self._held(uid)
        _set(self._written, uid, written)
        _set(self._promised, uid, promised)
        _set(self._kept, uid, kept)
        self._settle(before, self._held(uid))

    def _end_promise(self, uid: str) -> None:
        self._promised.pop(uid, None)
        self._kept.pop(uid, None)

    def is_promised(self, uid: str) -> bool:
        return uid in self._promised

    def _held(self, uid: str) -> Taken:
        return self._promised.get(uid) or self._written.get(uid, NOTHING)

    def _settle(self, before: Taken, after: Taken) -> bool:
        if before == after:
            return False
        self.changes += 1
        is_freed = before is not NOTHING and self._let_go_of(before.beyond(after))
        if after is not NOTHING:
            taken = after.beyond(before)
            devices = [device for device in taken.devices if self._take(device)]
            self._index.take(devices, [share for share in taken.shares if self._take(share)])
        return is_freed

    def _let_go_of(self, taken: Taken) -> bool:
        """Note one holder less of each; whether one became free."""
        devices = [device for device in taken.devices if self._let_go(device)]
        shares = [share for share in taken.shares if self._let_go(share)]
        self._index.release(devices, shares)
        return bool(devices or shares)

    def _take(self, device: DeviceId | Share) -> bool:
        """Note one more holder; whether it is the first."""
        if device in self._taken:
            self._shared[device] += 1
            return False
        self._taken.add(device)
        return True

    def _let_go(self, device: DeviceId | Share) -> bool:
        """Note one holder less; whether it was the last."""
        if self._shared[device] > 0:
            self._shared[device] -= 1
            return False
        del self._shared[device]
        self._taken.discard(device)
        return True


def _set(kept: dict[str, V], uid: str, value: V | None) -> None:
    if value is None:
        kept.pop(uid, None)
    else:
        kept[uid] = value
