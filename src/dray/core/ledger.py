"""Which claim holds which devices and shares of devices: as recorded in claims, or promised and not yet written.

The allocator's index only knows whether a device is free. The ledger knows the holders, so a device becomes free when
its last holder releases it. A share is held like a device. Left out: which devices to promise (`devices`).
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
    """Holders of devices: the devices recorded in each claim, and the devices promised to claims but not yet written.

    Two claims may hold the same device for a while, for example when another scheduler has written a device that this
    scheduler has promised. The device becomes free when the last holder releases it. A promise ends when the claim is
    seen with an allocation. That event may be missing after a watch restarts, so a promise also ends when the claim
    is seen without an allocation in a version at least as new as the written version.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._written: dict[str, Taken] = {}
        self._promised: dict[str, Taken] = {}
        self._kept: dict[str, int] = {}  # resource versions of claims whose promises were written
        self._shared: Counter[DeviceId | Share] = Counter()  # number of holders of a device beyond the first
        self._taken: set[DeviceId | Share] = set()
        self.changes = 0  # number of changes of held devices so far
        self.record: RecordInverse | None = None  # receives the inverse of each change during a trial

    def written(self, uid: str, taken: Taken | None, version: int = 0) -> bool:
        """Record the devices that a claim holds according to the API server; None if the claim is not allocated.

        `version` is the claim's resource version: without an allocation, a promise ends only if the version is not
        older than its write. Returns whether devices became free.
        """
        if taken is None and uid not in self._written and uid not in self._promised:
            return False  # most events of a claim arrive before its allocation
        before = self._held(uid)
        if taken is None:
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
        """Record that a promised claim was written with this resource version, before the write's event has arrived."""
        self._note(uid)
        self._kept[uid] = version

    def promise(self, uid: str, taken: Taken) -> None:
        """Hold devices for a claim whose allocation is not written yet."""
        self._note(uid)
        before = self._held(uid)
        self._promised[uid] = taken
        self._settle(before, self._held(uid))

    def forget(self, uid: str) -> bool:
        """Withdraw the promise to a claim, if there is one. Returns whether devices became free."""
        self._note(uid)
        before = self._held(uid)
        self._end_promise(uid)
        return self._settle(before, self._held(uid))

    def _note(self, uid: str) -> None:
        """Record the inverse of a change to a claim's entries, if a trial is running."""
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
        """Return the devices promised to a claim, or else the devices recorded in the claim, or else NOTHING."""
        return self._promised.get(uid) or self._written.get(uid, NOTHING)

    def _settle(self, before: Taken, after: Taken) -> bool:
        """Update holders and the index after a claim's devices changed. Returns whether devices became free."""
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
        """Remove one holder of each device and share. Returns whether any of them became free."""
        devices = [device for device in taken.devices if self._let_go(device)]
        shares = [share for share in taken.shares if self._let_go(share)]
        self._index.release(devices, shares)
        return bool(devices or shares)

    def _take(self, device: DeviceId | Share) -> bool:
        """Add a holder of a device or share. Returns whether this is the first holder."""
        if device in self._taken:
            self._shared[device] += 1
            return False
        self._taken.add(device)
        return True

    def _let_go(self, device: DeviceId | Share) -> bool:
        """Remove a holder of a device or share. Returns whether this was the last holder."""
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
