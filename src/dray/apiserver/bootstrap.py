"""Write the objects that every cluster has (`bootstrap`) each time a server starts.

These writes bypass authorization and admission, because the objects written here are what both decide by. Several
servers may do this at the same time: on a conflict a server reads again and has fewer objects to write.
"""

from __future__ import annotations

from dray.api.decode import to_object
from dray.apiserver.read.storage import Storage, written
from dray.apiserver.security.authorization.bootstrap import Wanted, wanted
from dray.apiserver.write.service_addresses import ServiceAddresses
from dray.store import Op, RevisionConflict

_AT_ONCE = 64  # writes per transaction: etcd allows 128 by default, and some stores need time for each
_ATTEMPTS = 10


async def bootstrap(storage: Storage, root_ca: str = "", address: str = "") -> int:
    """Create missing system objects and repair changed ones. Returns the number of objects written.

    Raises RevisionConflict after ten attempts.
    """
    count = 0
    for attempt in range(_ATTEMPTS):
        await storage.cache.read()
        try:
            for some in _batched(list(wanted(storage, root_ca, address))):
                await storage.cache.commit(some)
                count += len(some)
            return count + await _hold_addresses(storage)
        except RevisionConflict:
            if attempt == _ATTEMPTS - 1:
                raise
    return count


async def _hold_addresses(storage: Storage) -> int:
    """Allocate addresses and ports that Services lack. Returns the number of objects written."""
    count = 0
    for ops in ServiceAddresses(storage.cache).repairs():
        await storage.cache.commit(ops)
        count += len(ops)
    return count


def _batched(objects: list[Wanted]) -> list[list[Op]]:
    """Return the writes for `objects`, in batches of one transaction each."""
    ops = [_op(one) for one in objects]
    return [ops[start : start + _AT_ONCE] for start in range(0, len(ops), _AT_ONCE)]


def _op(one: Wanted) -> Op:
    """Return the write that creates or updates one object, on condition that its revision is unchanged."""
    resource, tree = one
    metadata = tree["metadata"]
    expected = int(metadata.pop("resourceVersion", 0))
    key = resource.key(metadata.get("namespace", ""), metadata["name"])
    return written(key, to_object(resource, tree), expected=expected)
