"""Publishes a driver's pools as ResourceSlices and keeps them correct.

Slices that somebody changed or deleted are restored; nothing is written while everything is correct. After an error
the write is retried at growing intervals, and the driver is notified. Left out: what to publish (`pools`), and which
writes are needed (`plan`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from dray.api.errors import AlreadyExists, ApiError, Conflict, InternalError, NotFound
from dray.api.types.core import Node
from dray.api.types.resource import ResourceSlice, ResourceSliceSpec
from dray.api.wire import Tree
from dray.client import Client, Clock, Deltas, Informer, SystemClock, WorkQueue
from dray.driver import plan
from dray.driver.pools import Pools, specs

log = logging.getLogger(__name__)

OnError = Callable[[str, ApiError], None]
"""Called with the pool and the error. The publisher retries by itself."""

_FIRST_RETRY_SECONDS = 0.05
_LAST_RETRY_SECONDS = 30.0
# Time after which the informer's copy counts as current although one of our writes has not appeared in the watch.
_ECHO_SECONDS = 30.0
# Delay of repairs: others often make several changes at once, and a restarting node agent deletes its node's slices.
_REPAIR_SECONDS = 1.0
_BY_POOL = "pool"


class Publisher:
    """Publishes the slices of one driver: those of a node, or without a node the network-attached ones.

    Call `publish` with all pools whenever they change; `run` writes the slices until it is cancelled.
    """

    def __init__(
        self,
        client: Client,
        driver: str,
        node: str = "",
        *,
        on_error: OnError | None = None,
        repair_after: float = _REPAIR_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._driver = driver
        self._node = node
        self._on_error = on_error or _log_error
        self._repair_after = repair_after
        self._clock = clock or SystemClock()
        self._pools: Pools = {}
        self._selector = f"spec.driver={driver},spec.nodeName={node}"
        self._slices: Informer[ResourceSlice] = Informer(client, ResourceSlice, fields=self._selector, clock=clock)
        self._slices.add_index(_BY_POOL, lambda one: [one.spec.pool.name])
        self._slices.add_handler(self._on_slices)
        self._queue: WorkQueue[str] = WorkQueue(
            f"slices_{driver}", clock=clock, first_retry=_FIRST_RETRY_SECONDS, last_retry=_LAST_RETRY_SECONDS
        )
        self._accepted: dict[str, tuple[ResourceSliceSpec, ResourceSliceSpec]] = {}
        # Own writes that the informer does not show yet, by pool and slice: the version, and when to stop waiting.
        self._awaited: dict[str, dict[str, tuple[int, float]]] = {}
        self._outdated: set[str] = set()  # pools whose wanted state was not written yet
        self._current = asyncio.Event()
        self._current.set()

    def publish(self, pools: Pools) -> None:
        """Set the pools to publish. Pools that are missing from `pools` are removed.

        Returns at once; `run` writes the slices. Pools of the other kind (local to a node or not) are ignored.
        """
        local = bool(self._node)
        wanted = {name: pool for name, pool in pools.items() if pool.is_local == local}
        for name in {*wanted, *self._pools}:
            if wanted.get(name) != self._pools.get(name):
                self._outdated.add(name)
                self._current.clear()
                self._queue.add(name)
        self._pools = wanted

    async def published(self) -> None:
        """Wait until all pools given to `publish` have been written."""
        await self._current.wait()

    async def run(self) -> None:
        """Write, watch and repair slices until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._slices.run(), name=f"slices of {self._driver}")
            await self._slices.synced()
            while True:
                pool = await self._queue.get()
                try:
                    await self._attend(pool)
                finally:
                    self._queue.done(pool)

    async def withdraw(self) -> None:
        """Delete all slices, for a driver that is being removed. `run` must have ended."""
        for one in (await self._client.list(ResourceSlice, fields=self._selector)).items:
            await self._delete(one)

    # -- one pool

    async def _attend(self, pool: str) -> None:
        """Write one pool, and schedule a retry after an error.

        Invalid devices are reported like an error of the API.
        """
        try:
            await self._write(pool)
        except (AlreadyExists, Conflict) as error:  # another writer was faster; the watch will show the change
            log.debug("pool %s of %s: %s", pool, self._driver, error)
        except ApiError as error:
            self._on_error(pool, error)
        except Exception as error:  # invalid devices; the published slices stay
            log.exception("pool %s of %s", pool, self._driver)
            self._on_error(pool, InternalError(f"{type(error).__name__}: {error}"))
        else:
            self._queue.forget(pool)
            return
        self._queue.add_rate_limited(pool)

    async def _write(self, pool: str) -> None:
        """Write the slices of one pool, or postpone that while the informer lacks own earlier writes."""
        wait = self._echo_wait(pool)
        if wait > 0:
            self._queue.add_after(pool, wait)
            return
        wanted = self._pools.get(pool)
        parts = specs(self._driver, self._node, pool, wanted) if wanted is not None else []
        owner = await self._owner() if parts else None
        steps = plan.plan(parts, self._slices.by_index(_BY_POOL, pool), self._node, owner, self._accepted)
        for one in steps.delete:
            await self._delete(one)
        for tree in steps.update:
            self._written(pool, tree, await self._client.update(ResourceSlice, tree))
        for tree in steps.create:
            self._written(pool, tree, await self._client.create(ResourceSlice, tree))
        if wanted is self._pools.get(pool):
            self._outdated.discard(pool)
            if not self._outdated:
                self._current.set()
                devices = sum(len(known.devices) for known in self._pools.values())
                log.info("driver %s published %d pools, %d devices", self._driver, len(self._pools), devices)

    async def _delete(self, one: ResourceSlice) -> None:
        with suppress(NotFound):
            await self._client.delete(ResourceSlice, one.metadata.name, uid=one.metadata.uid)
        self._accepted.pop(one.metadata.name, None)

    async def _owner(self) -> plan.Owner | None:
        if not self._node:
            return None
        node = await self._client.get(Node, self._node)
        return plan.Owner(node.metadata.name, node.metadata.uid)

    def _written(self, pool: str, tree: Tree, stored: ResourceSlice) -> None:
        """Remember what the server stored, and that the informer does not show it yet. Reports dropped fields."""
        sent = plan.typed(tree)
        name = stored.metadata.name
        until = self._clock.monotonic() + _ECHO_SECONDS
        self._awaited.setdefault(pool, {})[name] = int(stored.metadata.resourceVersion), until
        self._accepted[name] = sent.spec, stored.spec
        lost = _lost(sent.spec, stored.spec)
        if lost:
            text = f"slice {name}: the API server dropped {lost}; the required features may be off"
            self._on_error(pool, InternalError(text))

    def _echo_wait(self, pool: str) -> float:
        """Return the seconds to wait until the informer's copy of a pool is current, or 0 if it is.

        Own writes that do not show up in the copy in time are no longer awaited.
        """
        now = self._clock.monotonic()
        awaited = self._awaited.pop(pool, {})
        pending = {
            name: (version, until)
            for name, (version, until) in awaited.items()
            if until > now and _version(self._slices.get("", name)) < version
        }
        if pending:
            self._awaited[pool] = pending
        return max((until - now for _, until in pending.values()), default=0.0)

    def _on_slices(self, deltas: Deltas[ResourceSlice]) -> None:
        for old, new in deltas:
            one = new or old
            assert one is not None
            pool = one.spec.pool.name
            if new is None:
                self._awaited.get(pool, {}).pop(one.metadata.name, None)
            if pool in self._outdated:
                self._queue.add(pool)
            else:
                self._queue.add_after(pool, self._repair_after)


def _version(one: ResourceSlice | None) -> int:
    return int(one.metadata.resourceVersion) if one is not None else 0


def _lost(sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> str:
    """Return the names of the fields that were sent but not stored, separated by commas.

    Returns "" if everything was stored. Fields of devices are named `devices.FIELD`.
    """
    lost = {name for name in sent.__struct_fields__ if getattr(sent, name) and not getattr(stored, name)}
    for ours, theirs in zip(sent.devices, stored.devices, strict=False):
        lost |= {
            f"devices.{name}" for name in ours.__struct_fields__ if getattr(ours, name) and not getattr(theirs, name)
        }
    return ", ".join(sorted(lost))


def _log_error(pool: str, error: ApiError) -> None:
    log.warning("pool %s cannot be published (will be retried): %s", pool, error)
