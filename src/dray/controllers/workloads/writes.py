"""Keeps controllers from acting on informers' copies that do not show their own last writes yet.

Each key is handled by one worker at a time. Before a key is handled again, the worker waits until the copies show
everything that was written for that key. This replaces counts of expected events: nothing is created twice because a
watch is slow, and nothing is lost with an event, since a new list shows the writes too. Left out: writes of other
processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dray.api.errors import Timeout
from dray.client import Deltas, Informer, Key, Object, key_of
from dray.client.interface import T

# A watch that is this late is broken. The key is retried with a backoff and waits again.
PATIENCE_SECONDS = 5.0

_Shown = Callable[[], bool]


class OwnWrites:
    """The writes of one controller, by owner, that the informers' copies do not show yet."""

    def __init__(self, *, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._informers: dict[type[Any], Informer[Any]] = {}
        self._pending: dict[Key, list[_Shown]] = {}  # by the owner's key
        self._waiting: set[asyncio.Event] = set()

    def follow(self, type_: type[T], informer: Informer[T]) -> None:
        """Register the informer whose copies show writes of this type."""
        self._informers[type_] = informer
        informer.add_handler(self._changed)

    def wrote(self, owner: Object, obj: Object) -> None:
        """Note that `obj` was created or changed on behalf of `owner`."""
        informer, meta = self._informers[type(obj)], obj.metadata
        version = int(meta.resourceVersion)

        def shown() -> bool:
            found = informer.get(meta.namespace, meta.name)
            if found is not None and found.metadata.uid == meta.uid:
                return int(found.metadata.resourceVersion) >= version
            # The object is missing: not yet created, or already deleted.
            return int(informer.resource_version or 0) >= version

        self._expect(owner, shown)

    def deleted(self, owner: Object, obj: Object) -> None:
        """Note that `obj` was deleted on behalf of `owner`, at once or with a grace period."""
        informer, meta = self._informers[type(obj)], obj.metadata

        def shown() -> bool:
            found = informer.get(meta.namespace, meta.name)
            return found is None or found.metadata.uid != meta.uid or found.metadata.deletionTimestamp is not None

        self._expect(owner, shown)

    async def shown(self, key: Key) -> None:
        """Wait until the copies show everything written for the owner with this key. Raises Timeout.

        Timeout means that the copies did not catch up in time. Returns at once if nothing is outstanding.
        """
        if not self._outstanding(key):
            return
        woken = asyncio.Event()
        self._waiting.add(woken)
        try:
            async with asyncio.timeout(self._patience):
                while self._outstanding(key):
                    woken.clear()
                    await woken.wait()
        except TimeoutError:
            raise Timeout(f"the watch is more than {self._patience:.0f} s behind this controller's writes") from None
        finally:
            self._waiting.discard(woken)

    def _expect(self, owner: Object, shown: _Shown) -> None:
        if not shown():
            self._pending.setdefault(key_of(owner), []).append(shown)

    def _outstanding(self, key: Key) -> bool:
        left = [shown for shown in self._pending.get(key, ()) if not shown()]
        if left:
            self._pending[key] = left
        else:
            self._pending.pop(key, None)
        return bool(left)

    def _changed(self, deltas: Deltas[Any]) -> None:
        for woken in self._waiting:
            woken.set()
