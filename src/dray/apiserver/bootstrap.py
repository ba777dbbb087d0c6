"""Writing what every cluster has from its first moment (`bootstrap`), at each start of a server.

Past authorization and admission, since what those decide by is being written here. Several servers may do this at the
same time: whoever comes second looks again and finds less to do.
"""

from __future__ import annotations

from dray.api.decode import to_object
from dray.apiserver.read.storage import Storage, written
from dray.apiserver.security.authorization.bootstrap import Wanted, wanted
from dray.apiserver.write.service_addresses import ServiceAddresses
from dray.store import Op, RevisionConflict

_AT_ONCE = 64  # etcd takes 128 writes in one transaction by default, and some stores take time for each
_ATTEMPTS = 10


async def bootstrap(storage: Storage, root_ca: str = "", address: str = "") -> int:
    """Create what is missing and repair what is not as it should be; the number of objects written."""
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
    """Give Services what they need and do not have yet; the number of objects written."""
    count = 0
    for ops in ServiceAddresses(storage.cache).repairs():
        await storage.cache.commit(ops)
        count += len(ops)
    return count


def _batched(objects: list[Wanted]) -> list[list[Op]]:
    ops = [_op(one) for one in objects]
    return [ops[start : start + _AT_ONCE] for start in range(0, len(ops), _AT_ONCE)]


def _op(one: Wanted) -> Op:
    resource, tree = one
    metadata = tree["metadata"]
    expected = int(metadata.pop("resourceVersion", 0))
    key = resource.key(metadata.get("namespace", ""), metadata["name"])
    return written(key, to_object(resource, tree), expected=expected)
