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
"""The last position in a transaction, where a commit is that travels alone. A lease deletes no more keys at once."""

_MARK = b"\0"  # JSON and Kubernetes' protobuf begin with other bytes
_SEPARATOR = b":"  # so that every value is greater than the header of its position
_HEADER = len(_MARK) + 2 + len(_SEPARATOR)

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


def first_position(commits: int) -> int:
    """Position of the first of so many commits; the last one has the last position of the transaction."""
    return LAST + 1 - commits


def with_position(value: bytes, position: int) -> bytes:
    """A value as it is stored. The last position, which most values have, takes no room."""
    if position == LAST and value > _MARK + b"\xff":
        return value
    return _header(position) + _SEPARATOR + value


def without_position(stored: bytes) -> tuple[bytes, int]:
    """Returns a value and the position of its commit."""
    if not stored.startswith(_MARK):
        return stored, LAST
    return stored[_HEADER:], int.from_bytes(stored[len(_MARK) : len(_MARK) + 2], "big")


def _header(position: int) -> bytes:
    return _MARK + position.to_bytes(2, "big")


def comparisons(key: bytes, expected: int) -> Iterator[pb.Compare]:
    """What must hold for a key that was last changed at a revision of the log; 0: the key must not exist."""
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
    """The state of a key that exists. After its first change, `created` is exact to the transaction."""
    value, position = without_position(kv.value)
    revision = revision_of(kv.mod_revision, position)
    created = revision if kv.create_revision == kv.mod_revision else end_of(kv.create_revision)
    return KeyVersion(key, value, revision, created)


def changes(prefix: bytes, events: Iterable[pb.Event]) -> Iterator[KeyVersion]:
    """The changes that a watch reports, in order. Etcd never divides a transaction between two reports."""
    for transaction, together in groupby(events, lambda event: event.kv.mod_revision):
        named = [(event.kv.key[len(prefix) :], event) for event in together]
        deleted = [name.decode() for name, event in named if event.type == pb.Event.DELETE]
        positions = {
            name: first_position(len(deleted)) + at for at, name in enumerate(deleted)
        }  # unless it is recorded
        for name, event in named:
            if name == DELETIONS:
                positions = msgspec.json.decode(event.kv.value, type=dict[str, int])
            elif name.startswith(b"\0"):
                continue  # another key of ours
            elif event.type == pb.Event.DELETE:
                key = name.decode()
                yield KeyVersion(key, None, revision_of(transaction, positions[key]), 0)
            else:
                yield state(name.decode(), event.kv)
