"""Revisions of commits that were combined in one etcd transaction.

etcd assigns one revision to a whole transaction, which can contain several commits (`etcd_batches`). A watcher
resumes after the revision of the last event it has received, so independent changes must not share a revision: if
the connection broke between them, the second would be lost. Therefore a revision of the log consists of etcd's
revision and the position of the commit in its transaction. The position is stored in front of the value, and for
deletions in a record of the transaction, so every server derives the same revisions. This module does not
communicate with etcd.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec

from dray.store import etcd_pb2 as pb
from dray.store.log import KeyVersion

_BITS = 10
LAST = (1 << _BITS) - 1
"""Last position in a transaction, used for a commit that is sent alone. An expiring lease deletes at most this many
keys.
"""

_MARK = b"\0"  # starts a stored position; JSON and Kubernetes' protobuf start with other bytes
_SEPARATOR = b":"  # makes every stored value greater than the header of its position
_HEADER = len(_MARK) + 2 + len(_SEPARATOR)

DELETIONS = b"\0deletions"
"""Key of the record with the positions of a transaction's deletions."""


def revision_of(transaction: int, position: int) -> int:
    """Return the log's revision of the commit at a position of an etcd transaction (etcd's revision)."""
    return transaction << _BITS | position


def end_of(transaction: int) -> int:
    """Return the log's revision at the end of an etcd transaction."""
    return revision_of(transaction, LAST)


def transaction_of(revision: int) -> int:
    """Return etcd's revision of the transaction that contains a revision of the log."""
    return revision >> _BITS


def complete_at(revision: int) -> int:
    """Return etcd's revision of the newest transaction that is complete at a revision of the log."""
    return (revision + 1 >> _BITS) - 1


def first_position(commits: int) -> int:
    """Return the position of the first of `commits` commits, of which the last has the last position, LAST."""
    return LAST + 1 - commits


def with_position(value: bytes, position: int) -> bytes:
    """Return a value in stored form, with the position of its commit. The last position needs no space."""
    if position == LAST and value > _MARK + b"\xff":
        return value
    return _header(position) + _SEPARATOR + value


def without_position(stored: bytes) -> tuple[bytes, int]:
    """Split a stored value. Returns the value and the position of its commit, LAST if none is stored."""
    if not stored.startswith(_MARK):
        return stored, LAST
    return stored[_HEADER:], int.from_bytes(stored[len(_MARK) : len(_MARK) + 2], "big")


def _header(position: int) -> bytes:
    return _MARK + position.to_bytes(2, "big")


def comparisons(key: bytes, expected: int) -> Iterator[pb.Compare]:
    """Yield the etcd conditions that a key was last changed at a revision of the log; 0 means that it does not exist."""
    yield pb.Compare(target=pb.Compare.MOD, key=key, mod_revision=transaction_of(expected))
    position = expected & LAST
    if expected == 0:
        return
    yield pb.Compare(target=pb.Compare.VALUE, key=key, result=pb.Compare.GREATER, value=_header(position))
    if position != LAST:
        yield pb.Compare(target=pb.Compare.VALUE, key=key, result=pb.Compare.LESS, value=_header(position + 1))


def deletions_record(positions: Mapping[str, int]) -> bytes:
    return msgspec.json.encode(positions)


def state(key: str, kv: pb.KeyValue) -> KeyVersion:
    """Return the state of an existing key. After later changes, `created` is exact only to the transaction."""
    value, position = without_position(kv.value)
    revision = revision_of(kv.mod_revision, position)
    created = revision if kv.create_revision == kv.mod_revision else end_of(kv.create_revision)
    return KeyVersion(key, value, revision, created)


def changes(prefix: bytes, events: Iterable[pb.Event]) -> Iterator[KeyVersion]:
    """Yield the changes that a watch reports, in order. etcd never splits a transaction between two reports.

    `prefix` is removed from the keys. Internal keys are left out. A deletion has the value None and `created` 0.
    """
    for transaction, together in groupby(events, lambda event: event.kv.mod_revision):
        named = [(event.kv.key[len(prefix) :], event) for event in together]
        deleted = [name.decode() for name, event in named if event.type == pb.Event.DELETE]
        # Used if the transaction has no record of deletions.
        positions = {name: first_position(len(deleted)) + at for at, name in enumerate(deleted)}
        for name, event in named:
            if name == DELETIONS:
                positions = msgspec.json.decode(event.kv.value, type=dict[str, int])
            elif name.startswith(b"\0"):
                continue  # an internal key, such as the fence
            elif event.type == pb.Event.DELETE:
                key = name.decode()
                yield KeyVersion(key, None, revision_of(transaction, positions[key]), 0)
            else:
                yield state(name.decode(), event.kv)
