"""The last step of every write: one commit of the object and of all objects that must change with it.

Admission may add writes, such as a changed ResourceQuota: all are committed or none. If another writer changed only
one of these additional objects, admission validates again and the commit is retried. A conflict about the object
itself is raised to the caller.
"""

from __future__ import annotations

from dray.api.decode import to_object
from dray.api.errors import conflict
from dray.api.wire import Wire
from dray.apiserver.admission import AdmissionRequest, Chain, Write
from dray.apiserver.read.storage import at_revision, encode, written
from dray.apiserver.write.holds import CLAIMS, PREFIX, SLICES, DeviceHolds, Holding, Overcommitted
from dray.apiserver.write.service_addresses import SERVICES, ServiceAddresses
from dray.store import Cache, KeyVersion, Op, RevisionConflict

_ATTEMPTS = 16
_EVENT_SECONDS = 3600.0  # events expire after an hour, as in Kubernetes


class TakenMeanwhile(RevisionConflict):
    """Another server took an address or port chosen for a Service. The caller chooses again."""


class Commits:
    """Commits writes and deletions, with the device holds, Service addresses and quota changes that belong to them."""

    def __init__(self, cache: Cache, admission: Chain) -> None:
        self._cache = cache
        self._admission = admission
        self._holds = DeviceHolds(cache)
        self.services = ServiceAddresses(cache)

    async def write(
        self, admission: AdmissionRequest, key: str, obj: Wire, *, expected: int, value: bytes = b""
    ) -> KeyVersion:
        """Store an object and return its new state. Raises RevisionConflict if `expected` does not hold.

        `expected` is the revision that the write replaces; 0 means that the object must not exist. `value` is the
        encoded object if the caller already has it. A dry run only checks `expected`.
        """
        ttl = _EVENT_SECONDS if key.startswith("events/") else None
        op = written(key, obj, value, expected=expected, ttl=ttl)
        if admission.dry_run:
            await self._check(key, expected)
        revision = await self._commit(admission, op, obj)
        return self._version(op, obj, revision, expected)

    async def remove(self, admission: AdmissionRequest, current: KeyVersion, obj: Wire | None = None) -> KeyVersion:
        """Delete an object. Returns its last state, which is `obj` if an update caused the deletion.

        Raises RevisionConflict if the object is no longer in the state `current`.
        """
        revision = await self._commit(admission, Op(current.key, None, current.revision))
        if obj is None:
            return KeyVersion(current.key, current.value, current.revision, current.created, None, current.object)
        value = encode(obj)
        return KeyVersion(current.key, value, revision, current.created, None, at_revision(obj, revision))

    async def _check(self, key: str, expected: int) -> None:
        """Raise RevisionConflict unless the cached revision of a key is `expected`."""
        current = self._cache.get(key)
        actual = current.revision if current is not None else 0
        if actual != expected:
            raise RevisionConflict(key, expected, actual)

    async def _commit(self, admission: AdmissionRequest, op: Op, obj: Wire | None = None) -> int:
        """Commit a write together with all that belongs to it.

        Returns the new revision, and releases what admission holds. A dry run writes nothing and returns the object's
        present revision, or 0 for a new object.
        """
        try:
            if admission.dry_run:
                return op.expected or 0
            holds: list[Op] = []
            if admission.resource is CLAIMS or admission.resource is SLICES:
                holds = await self._holds_of(admission, obj)
            elif admission.resource is SERVICES:
                holds = self.services.ops(admission.old, obj)  # type: ignore[arg-type]  # both are Services
            if not admission.writes and not holds:
                return await self._cache.commit((op,), awaited=admission.awaited)
            return await self._commit_together(admission, op, obj, holds)
        finally:
            if admission.held is not None:
                await admission.release()

    async def _holds_of(self, admission: AdmissionRequest, obj: Wire | None) -> list[Op]:
        """Return the writes of device holds for a changed claim or slice. `obj` is None if the object is deleted.

        Raises Conflict if a device, capacity or counter is already taken.
        """
        old: Holding | None = admission.old  # type: ignore[assignment]  # called for claims and slices only
        new: Holding | None = obj  # type: ignore[assignment]
        try:
            return self._holds.ops(old, new)
        except Overcommitted:
            await self._cache.read()  # another server may have freed devices since the cache was last updated
        try:
            return self._holds.ops(old, new)
        except Overcommitted as error:
            raise conflict(admission.resource, admission.name, str(error)) from error

    async def _commit_together(self, admission: AdmissionRequest, op: Op, obj: Wire | None, holds: list[Op]) -> int:
        """Commit a write with its additional writes. Returns the new revision.

        If only an additional write conflicts, the holds or the admission decision are computed again and the commit
        is retried. Raises RevisionConflict if the object itself has changed, TakenMeanwhile if another Service took
        an address or port, a Conflict error after too many attempts.
        """
        for _ in range(_ATTEMPTS):
            ops = [op, *holds, *map(_op, admission.writes)]
            try:
                return await self._cache.commit(ops, awaited=admission.awaited)
            except RevisionConflict as error:
                if error.key == op.key:
                    raise
                await self._cache.read()
                if admission.resource is SERVICES and any(error.key == hold.key for hold in holds):
                    raise TakenMeanwhile(error.key, error.expected, error.actual) from error
                if error.key.startswith(PREFIX):
                    holds = await self._holds_of(admission, obj)
                else:
                    await self._admission.revalidate(admission)
        crowded = admission.writes[0] if admission.writes else admission
        raise conflict(crowded.resource, crowded.name, "too many others write to it at the same time")

    def _version(self, op: Op, obj: Wire, revision: int, expected: int) -> KeyVersion:
        """Return the state that was written, even if another write has replaced it since."""
        found = self._cache.get(op.key)
        if found is not None and found.revision == revision and revision != expected:
            return found
        return KeyVersion(op.key, op.value, revision, expected or revision, None, at_revision(obj, revision))


def _op(write: Write) -> Op:
    """Return the store operation for a write that admission added."""
    resource = write.resource
    tree = {**write.tree, "metadata": {k: v for k, v in write.tree["metadata"].items() if k != "resourceVersion"}}
    obj = to_object(resource, tree)
    return written(resource.key(write.namespace, write.name), obj, expected=int(write.expected))
