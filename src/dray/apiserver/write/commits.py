"""The last step of every write: one commit, with what admission wants written along with it.

Quota and the like put further objects into a request; all are written or none is. When only one of those was changed by
somebody else, admission decides again and the commit is tried again; a conflict about the object itself is the caller's.
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
_EVENT_SECONDS = 3600.0  # events are news: Kubernetes forgets them after an hour too


class TakenMeanwhile(RevisionConflict):
    """Another server took an address that was chosen for a Service: its writer chooses again."""


class Commits:
    def __init__(self, cache: Cache, admission: Chain) -> None:
        self._cache = cache
        self._admission = admission
        self._holds = DeviceHolds(cache)
        self.services = ServiceAddresses(cache)

    async def write(
        self, admission: AdmissionRequest, key: str, obj: Wire, *, expected: int, value: bytes = b""
    ) -> KeyVersion:
        """Store an object; `expected` 0 means that there must be none yet. Raises the store's Conflict.

        `value` is the object as it is stored, where the caller has it already.
        """
        ttl = _EVENT_SECONDS if key.startswith("events/") else None
        op = written(key, obj, value, expected=expected, ttl=ttl)
        if admission.dry_run:
            await self._check(key, expected)
        revision = await self._commit(admission, op, obj)
        return self._version(op, obj, revision, expected)

    async def remove(self, admission: AdmissionRequest, current: KeyVersion, obj: Wire | None = None) -> KeyVersion:
        """Delete an object; the answer is its last state, `obj` if the deletion came with an update."""
        revision = await self._commit(admission, Op(current.key, None, current.revision))
        if obj is None:
            return KeyVersion(current.key, current.value, current.revision, current.created, None, current.object)
        value = encode(obj)
        return KeyVersion(current.key, value, revision, current.created, None, at_revision(obj, revision))

    async def _check(self, key: str, expected: int) -> None:
        current = self._cache.get(key)
        actual = current.revision if current is not None else 0
        if actual != expected:
            raise RevisionConflict(key, expected, actual)

    async def _commit(self, admission: AdmissionRequest, op: Op, obj: Wire | None = None) -> int:
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
        """Keys of devices that the write of a claim or slice changes; `obj` is None when that goes."""
        old: Holding | None = admission.old  # type: ignore[assignment]  # this is about claims and slices alone
        new: Holding | None = obj  # type: ignore[assignment]
        try:
            return self._holds.ops(old, new)
        except Overcommitted:
            await self._cache.read()  # another server may have freed something that this one has not heard of
        try:
            return self._holds.ops(old, new)
        except Overcommitted as error:
            raise conflict(admission.resource, admission.name, str(error)) from error

    async def _commit_together(self, admission: AdmissionRequest, op: Op, obj: Wire | None, holds: list[Op]) -> int:
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
        """The state that was written, even if it has been superseded in the meantime."""
        found = self._cache.get(op.key)
        if found is not None and found.revision == revision and revision != expected:
            return found
        return KeyVersion(op.key, op.value, revision, expected or revision, None, at_revision(obj, revision))


def _op(write: Write) -> Op:
    resource = write.resource
    tree = {**write.tree, "metadata": {k: v for k, v in write.tree["metadata"].items() if k != "resourceVersion"}}
    obj = to_object(resource, tree)
    return written(resource.key(write.namespace, write.name), obj, expected=int(write.expected))
