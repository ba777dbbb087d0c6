"""Prepares and unprepares claims for the node agent: the common part of all drivers around the author's code.

Each claim is handled by one call at a time, different claims in parallel. A call whose caller gave up continues, so
that the next call finds the work done. An error belongs to one claim and does not affect others in the same call.
Left out: gRPC (`plugin`).
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from dray.api.cdi import CdiError
from dray.api.errors import ApiError, NotFound
from dray.api.types.resource import ResourceClaim
from dray.api.wire import Tree
from dray.client import Client, SystemClock
from dray.client.backoff import Backoff
from dray.driver.cdi import CdiDirectory
from dray.driver.claims import AllocatedClaim, ClaimReference, allocated
from dray.driver.contract import Driver, PreparedDevice, PrepareError
from dray.driver.metadata import MetadataFiles, ToldDevice
from dray.driver.prepared import PreparedClaims, PreparedDeviceRecord

log = logging.getLogger(__name__)

T = TypeVar("T")
_GRACE_SECONDS = 5.0
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,127}")  # part of file names


class ClaimNotFound(PrepareError):
    """The claim does not exist, or another claim has its name."""


class Preparation:
    """Prepares and unprepares the claims of one driver on one node."""

    def __init__(
        self, driver: Driver, client: Client, prepared: PreparedClaims, cdi: CdiDirectory, metadata: MetadataFiles
    ) -> None:
        self._driver = driver
        self._client = client
        self._prepared = prepared
        self._cdi = cdi
        self._metadata = metadata
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._running: set[asyncio.Task[object]] = set()

    async def prepare(
        self, claims: Sequence[ClaimReference]
    ) -> dict[str, tuple[PreparedDeviceRecord, ...] | PrepareError]:
        """Prepare claims. Returns by uid the prepared devices of each claim, or the error.

        A failure of one claim does not affect the others.
        """
        return await self._each(claims, self._prepare)

    async def unprepare(self, claims: Sequence[ClaimReference]) -> dict[str, PrepareError | None]:
        """Unprepare claims. Returns by uid None for success, or the error.

        A claim that is not prepared is a success.
        """
        return await self._each(claims, self._unprepare)

    def clean_specs(self) -> None:
        """Remove CDI specs of claims without a record. A record is always written before a spec."""
        known = {entry.uid for entry in self._prepared}
        for uid in self._cdi.claims():
            if uid not in known:
                self._cdi.remove(uid)

    async def clean(self) -> None:
        """Unprepare claims that were deleted or deallocated while no driver ran. Retries until all are done."""
        backoff = Backoff(SystemClock())
        pending = [entry.reference for entry in self._prepared]
        while pending:
            pending = [claim for claim in pending if not await self._clean(claim)]
            if pending:
                await backoff.pause()

    async def aclose(self, grace: float = _GRACE_SECONDS) -> None:
        """Wait up to `grace` seconds for running work, then cancel it. Cancelled work is repeated after the restart."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # -- one claim

    async def _prepare(self, reference: ClaimReference) -> tuple[PreparedDeviceRecord, ...]:
        entry = self._prepared.finished(reference.uid)
        if entry is not None and entry.answers is not None and entry.own_specs <= self._cdi.exists(reference.uid):
            return entry.answers
        claim = await self._read(reference)
        published = await self._published(claim)
        self._prepared.begin(reference)
        devices = [*await self._driver.prepare(claim)]
        _check_complete(claim, devices)
        names = [f"{index}-{one.device.name}" for index, one in enumerate(devices)]
        ids = self._cdi.write(claim.uid, {name: one.edits for name, one in zip(names, devices, strict=True)})
        told = self._metadata.write(
            claim,
            [
                ToldDevice.of(one.device, one.metadata, published[one.device.pool, one.device.name])
                for one in devices
                if one.metadata is not None
            ],
        )
        # The first device of a request carries the metadata file that describes all of the request's devices.
        answers = tuple(
            _answer(one, ids.get(name), told.pop(one.device.request, None))
            for name, one in zip(names, devices, strict=True)
        )
        self._prepared.finish(reference, answers, own_specs=bool(ids))
        return answers

    async def _unprepare(self, reference: ClaimReference) -> None:
        if self._prepared.find(reference.uid) is not None:
            await self._driver.unprepare(reference)
        self._cdi.remove(reference.uid)
        self._metadata.remove(reference)
        self._prepared.forget(reference.uid)

    async def _read(self, reference: ClaimReference) -> AllocatedClaim:
        try:
            claim = await self._client.get(ResourceClaim, reference.name, reference.namespace)
        except NotFound as error:
            raise ClaimNotFound(f"ResourceClaim {reference} does not exist") from error
        except ApiError as error:
            raise PrepareError(f"ResourceClaim {reference} cannot be read: {error}") from error
        if claim.metadata.uid != reference.uid:
            found = claim.metadata.uid
            raise ClaimNotFound(f"ResourceClaim {reference} has uid {found}, not {reference.uid}: it was replaced")
        if claim.status.allocation is None:
            raise PrepareError(f"ResourceClaim {reference} is not allocated")
        return allocated(claim, self._driver.name)

    async def _published(self, claim: AllocatedClaim) -> dict[tuple[str, str], Tree]:
        """Return the claim's devices in their published form, by pool and name.

        Raises `PrepareError` if one is missing. The scheduler may have seen an older state of the pools. A device
        that returns is found in the next attempt.
        """
        pools = await self._driver.devices()
        found: dict[tuple[str, str], Tree] = {}
        for one in claim.devices:
            pool = pools.get(one.pool)
            device = pool.find(one.name) if pool is not None else None
            if device is None:
                raise PrepareError(f"device {one.name} does not exist in pool {one.pool}")
            found[one.pool, one.name] = device
        return found

    async def _clean(self, claim: ClaimReference) -> bool:
        """Unprepare a claim if it no longer exists or is not allocated. Returns False if another attempt is needed.

        Returns True if there is nothing to do, because the claim is still allocated. Returns False if the claim
        cannot be read or unpreparing fails.
        """
        try:
            found = await self._client.get(ResourceClaim, claim.name, claim.namespace)
            if found.metadata.uid == claim.uid and found.status.allocation is not None:
                return True
        except NotFound:
            pass
        except ApiError as error:
            log.warning("cannot check whether claim %s still exists: %s", claim, error)
            return False
        log.info("claim %s is gone, cleaning up after it", claim)
        return (await self.unprepare([claim]))[claim.uid] is None

    # -- all claims of a call

    async def _each(
        self, claims: Iterable[ClaimReference], work: Callable[[ClaimReference], Awaitable[T]]
    ) -> dict[str, T | PrepareError]:
        """Run `work` for all claims in parallel. Returns each result, or error, by uid."""
        tasks = {claim.uid: asyncio.create_task(self._guarded(claim, work)) for claim in claims}
        for task in tasks.values():
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        # Shielded, because the caller's deadline must not cancel the work.
        return {uid: await asyncio.shield(task) for uid, task in tasks.items()}

    async def _guarded(self, claim: ClaimReference, work: Callable[[ClaimReference], Awaitable[T]]) -> T | PrepareError:
        """Run `work` while holding the claim's lock. Returns its result, or any failure as a `PrepareError`.

        Text that is not a uid is an error. API errors and exceptions of the driver become errors too.
        """
        if not _UID.fullmatch(claim.uid):
            return PrepareError(f"{claim.uid!r} is not the uid of a claim")
        try:
            async with self._locks.setdefault(claim.uid, asyncio.Lock()):
                return await work(claim)
        except PrepareError as error:
            log.warning("claim %s: %s", claim, error)
            return error
        except (CdiError, OSError) as error:
            log.warning("claim %s: %s", claim, error)
            return PrepareError(str(error))
        except Exception as error:
            log.exception("claim %s: the driver failed", claim)
            return PrepareError(f"{type(error).__name__}: {error}")


def _check_complete(claim: AllocatedClaim, devices: Sequence[PreparedDevice]) -> None:
    """Raise `PrepareError` if the driver did not prepare exactly the claim's devices."""
    prepared = {one.device.key for one in devices}
    missing = [one.name for one in claim.devices if one.key not in prepared]
    if missing:
        raise PrepareError(f"the driver did not prepare {', '.join(missing)}")
    foreign = [one.device.name for one in devices if one.device.key not in {own.key for own in claim.devices}]
    if foreign:
        raise PrepareError(f"the driver prepared {', '.join(foreign)}, which the claim does not have")


def _answer(one: PreparedDevice, *cdi_ids: str | None) -> PreparedDeviceRecord:
    ids = (*one.cdi_ids, *(cdi_id for cdi_id in cdi_ids if cdi_id))
    return PreparedDeviceRecord(one.device.request, one.device.pool, one.device.name, ids, one.device.share_id)
