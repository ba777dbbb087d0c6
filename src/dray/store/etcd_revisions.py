"""Revisions of commits that etcd carried out in one transaction.

Etcd gives one revision to everything in a transaction, and several commits travel in one (`etcd_batches`). Watchers resume
after the revision of the last event that they have seen, so two independent changes may not share a revision: a connection
that breaks between them would lose the second. A revision of the log is therefore etcd's revision and the position of the
commit in its transaction. The position is stored in front of the value, and for deletions in a record of the transaction,
so every server derives the same revisions. Left out: talking to etcd.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import msgspec

from dray.store import etcd_pb2 as pb
from dray.store.log import KeyVersion

_BITS = 10
LAST = (1 << _BITS) - 1
"""The last position in a transaction. A lease deletes up to as many keys in one transaction."""

_MARK = b"\0"  # JSON and Kubernetes' protobuf begin with other bytes
_HEADER = len(_MARK) + 2

DELETIONS = b"\0deletions"
"""Key of the record that tells the positions of the deletions of a transaction."""


def revision_of(transaction: int, position: int) -> int:
    """The log's revision of the commit at this position of an etcd transaction."""
    return transaction << _BITS | position


def end_of(transaction: int) -> int:
    """The log's revision when the transaction is complete."""
    return revision_of(transaction, LAST)


def transaction_of(revision: int) -> int:
    """Etcd's revision of the transaction that a revision belongs to."""
    return revision >> _BITS


def complete_at(revision: int) -> int:
    """Etcd's revision of the newest transaction that is complete at a revision."""
    return (revision + 1 >> _BITS) - 1


def with_position(value: bytes, position: int) -> bytes:
    """A value as it is stored. Position 0, which most values have, takes no room."""
    if position == 0 and not value.startswith(_MARK):
        return value
    return _MARK + position.to_bytes(2, "big") + value


def without_position(stored: bytes) -> tuple[bytes, int]:
    """Returns a value and the position of its commit."""
    if not stored.startswith(_MARK):
        return stored, 0
    return stored[_HEADER:], int.from_bytes(stored[len(_MARK) : _HEADER], "big")


def deletions_record(positions: Mapping[str, int]) -> bytes:
    return msgspec.json.encode(positions)


def state(key: str, kv: pb.KeyValue) -> KeyVersion:
    """The state of a key that exists. `created` is exact to the transaction."""
    value, position = without_position(kv.value)
    revision = revision_of(kv.mod_revision, position)
    created = revision if kv.create_revision == kv.mod_revision else revision_of(kv.create_revision, 0)
    return KeyVersion(key, value, revision, created)


def changes(prefix: bytes, events: Iterable[pb.Event]) -> Iterator[KeyVersion]:
    """The changes that a watch reports, in order. A transaction is never divided between two reports."""
    for transaction, together in groupby(events, lambda event: event.kv.mod_revision):
        deleted: dict[str, int] = {}
        expired = 0  # keys that a lease deleted: nobody wrote a record of their order
        for event in together:
            name = event.kv.key[len(prefix) :]
            if name == DELETIONS:
                deleted = msgspec.json.decode(event.kv.value, type=dict[str, int])
            elif name.startswith(b"\0"):
                continue  # other keys of ours
            elif event.type == pb.Event.DELETE:
                position = deleted.get(name.decode(), expired)
                expired = min(expired + 1, LAST)
                yield KeyVersion(name.decode(), None, revision_of(transaction, position), 0)
            else:
                yield state(name.decode(), event.kv)
