"""Log in etcd, for clusters with several API servers.

Revisions are derived from etcd's, so they can skip numbers: other programs can use the same etcd, and this module
sometimes writes a key of its own. All keys are below a prefix. A commit is an etcd transaction; simultaneous
commits are sent in one transaction (`etcd_batches`), and their position is part of the revision
(`etcd_revisions`). A TTL is an etcd lease, shared by keys written at about the same time. The limits of etcd
apply: by default 127 operations and 1.5 MiB per commit.
"""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from typing import Self

import grpc
import grpc.aio
from msgspec import Struct

from dray.store import etcd_pb2 as pb
from dray.store.errors import Closed, CommitTooLarge, Compacted, RevisionConflict, StoreError, Unavailable, Unreadable
from dray.store.etcd_batches import CommitBatches, CommitOutcome
from dray.store.etcd_client import (
    COMPACT,
    LEASE_GRANT,
    LEASE_TTL,
    PATIENCE,
    PUT,
    RANGE,
    TXN,
    EtcdClient,
    EtcdRefused,
    EtcdTls,
    EtcdUser,
)
from dray.store.etcd_revisions import changes, complete_at, end_of, revision_of, state
from dray.store.log import REPLAYED, Batch, Op, RangePage
from dray.store.shared_call import SharedCall
from dray.store.state import check_keys

logger = logging.getLogger(__name__)

_FENCE = b"\0fence"  # written to advance the watch; sorts before all user keys, which cannot start with NUL
_INCOMPLETE = b"\0incomplete"  # exists while a copy is being written into etcd
_NUDGE_SECONDS = 0.02  # the watch usually catches up within this time without help
_SLOWEST_NUDGE_SECONDS = 1.0
_RETRY_SECONDS = 0.2
_LEASE_KEYS = 1000  # etcd deletes all keys of a lease in one transaction
_KEYS_AT_ONCE = 50_000
_LEASE_SLACK = 0.05  # fraction of the TTL during which keys can join an existing lease


class Tail(Struct, eq=False):
    """Progress of one reader of the log."""

    seen: int


class EtcdLease(Struct):
    """An etcd lease that keys can share until the time `until`."""

    id: int
    until: float
    keys: int = 0


class EtcdLog:
    """Log in etcd. Created by `EtcdLog.open`."""

    replay = revision_of(REPLAYED, 0)

    def __init__(self, client: EtcdClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix.encode()
        self._end = self._prefix[:-1] + bytes([self._prefix[-1] + 1])
        self._leases: dict[int, EtcdLease] = {}
        self._tails: list[Tail] = []
        self._made: dict[str, Op] = {}  # key → operation whose `make` a tail can use instead of decoding
        self._wanted = 0
        self._nudging: asyncio.Task[None] | None = None
        self._closed = False
        self._batches = CommitBatches(client, self._prefix)
        self._ask_for_revision = SharedCall(self._current_revision)

    @classmethod
    async def open(
        cls,
        endpoints: Sequence[str],
        *,
        prefix: str = "/dray/",
        tls: EtcdTls | None = None,
        patience: float = PATIENCE,
        user: EtcdUser | None = None,
    ) -> Self:
        """Connect to the first endpoint that responds. Returns the log.

        Raises Unavailable after `patience` seconds, as all methods do. Raises Unreadable if an interrupted copy
        left incomplete data.
        """
        log = cls(EtcdClient(endpoints, tls, patience, user), prefix)
        try:
            if (await log._range(pb.RangeRequest(key=log._prefix + _INCOMPLETE, count_only=True))).count:
                raise Unreadable(
                    f"a copy was not completely written to etcd below {prefix}; `etcdctl del --prefix {prefix}` removes it, "
                    "then restore it again"
                )
        except BaseException:
            await log.close()
            raise
        return log

    async def commit(self, ops: Sequence[Op], *, awaited: bool = False) -> int:
        if self._closed:
            raise Closed("the log")
        check_keys(ops)
        if self._tails:
            self._made.update((op.key, op) for op in ops if op.make is not None)
        try:
            return await self._carry_out(ops)
        except BaseException:
            for op in ops:
                if self._made.get(op.key) is op:
                    del self._made[op.key]
            raise

    async def _carry_out(self, ops: Sequence[Op]) -> int:
        try:
            outcome = await self._transact(ops)
        except EtcdRefused as error:
            if error.code == grpc.StatusCode.INVALID_ARGUMENT:
                raise CommitTooLarge(str(error)) from error
            raise
        if outcome.answer.succeeded:
            return outcome.revision
        conflict = _conflict(ops, outcome.answer)
        if outcome.is_repeated:
            return await self._own_work(ops, conflict)
        raise conflict

    async def _transact(self, ops: Sequence[Op]) -> CommitOutcome:
        try:
            return await self._batches.commit(ops, await self._leases_of(ops))
        except EtcdRefused as error:
            if error.code != grpc.StatusCode.NOT_FOUND or not self._leases:
                raise
            self._leases.clear()  # a shared lease was revoked
            return await self._batches.commit(ops, await self._leases_of(ops))

    async def _leases_of(self, ops: Sequence[Op]) -> list[int]:
        """Return the lease of each operation; 0 for operations without a TTL."""
        return [await self._lease(op.ttl) if op.ttl is not None and op.value is not None else 0 for op in ops]

    async def _own_work(self, ops: Sequence[Op], conflict: RevisionConflict) -> int:
        """Return the revision of a commit whose response was lost, if its conflict shows that the first attempt was
        done.

        That is so if the conflicting key has the value (or the absence) that the commit gives it. Raises Unavailable
        if the conflict is with another writer.
        """
        op = next(op for op in ops if op.key == conflict.key)
        answer = await self._range(pb.RangeRequest(key=self._key(op.key)))
        found = state(op.key, answer.kvs[0]) if answer.kvs else None
        if found is None and op.value is None:
            return end_of(answer.header.revision)
        if found is not None and found.value == op.value:
            return found.revision
        raise Unavailable(f"etcd: the connection was lost, and then {conflict}")

    async def _lease(self, ttl: float) -> int:
        seconds = math.ceil(ttl)
        lease = self._leases.get(seconds)
        if lease is None or time.monotonic() > lease.until or lease.keys >= _LEASE_KEYS:
            slack = math.ceil(seconds * _LEASE_SLACK)
            answer, _ = await self._client.call(LEASE_GRANT, pb.LeaseGrantRequest(ttl=seconds + slack))
            lease = self._leases[seconds] = EtcdLease(answer.id, time.monotonic() + slack)
        lease.keys += 1
        return lease.id

    async def load(self, revision: int | None = None, after: str = "", limit: int | None = None) -> RangePage:
        # In etcd, 1 is the empty state and 0 means now.
        at = max(complete_at(revision), 1) if revision is not None else 0
        start = self._key(after) + b"\0" if after else self._prefix + b"\1"
        request = pb.RangeRequest(key=start, range_end=self._end, limit=limit or 0, revision=at)
        try:
            answer = await self._range(request)
        except EtcdRefused as error:
            if error.code != grpc.StatusCode.OUT_OF_RANGE or revision is None:
                raise
            head = await self._current_revision()
            if revision > head:
                raise ValueError(f"revision {revision} is not there yet; the newest is {head}") from error
            raise Compacted(revision, await self._oldest(revision, head)) from error
        if revision is not None and revision > (head := end_of(answer.header.revision)):
            raise ValueError(f"revision {revision} is not there yet; the newest is {head}")
        versions = [state(self._name(kv), kv) for kv in answer.kvs]
        return RangePage(versions, end_of(at or answer.header.revision), answer.count - len(versions))

    async def _oldest(self, revision: int, head: int) -> int:
        """Return the oldest readable revision after a compaction; only a watch reports it. Returns `head` if unknown.

        `revision` is the revision that could not be read.
        """
        try:
            async with aclosing(self._watch(revision)) as watch:
                await anext(watch, None)
        except Compacted as error:
            return error.oldest
        return head

    async def tail(self, after: int) -> AsyncIterator[Batch]:
        tail = Tail(after)
        self._tails.append(tail)
        self._made.clear()
        try:
            while not self._closed:
                async with aclosing(self._watch(tail.seen)) as watch:
                    async for batch in watch:
                        tail.seen = batch.revision
                        yield batch
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._tails.remove(tail)

    async def _watch(self, after: int) -> AsyncGenerator[Batch, None]:
        """Yield the batches of one watch stream until it breaks. Raises Compacted if the revisions after `after` are
        gone.

        The watch starts one revision early, and this revision is skipped: etcd does not report Compacted for a watch
        that starts exactly at the compacted revision, although a deletion at this revision may be missing.
        """
        endpoint, stream = self._client.watch()
        create = pb.WatchCreateRequest(
            key=self._prefix, range_end=self._end, start_revision=max(complete_at(after), 1), progress_notify=True
        )
        try:
            await stream.write(pb.WatchRequest(create=create))
            while (answer := await stream.read()) is not grpc.aio.EOF:
                if answer.canceled:
                    if answer.compact_revision:
                        raise Compacted(after, end_of(answer.compact_revision))
                    logger.warning("etcd ended the watch: %s", answer.cancel_reason)
                    with suppress(StoreError):
                        await self._current_revision()  # renews the token if the watch ended because it had expired
                    return
                batch = self._batch(answer, after)
                if batch.revision > after and not answer.created:
                    yield batch
        except grpc.aio.AioRpcError as error:
            if not self._closed:
                self._client.leave(endpoint, error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # a real cancellation; otherwise the channel was closed, for example to replace certificates
        finally:
            stream.cancel()

    def _batch(self, answer: pb.WatchResponse, after: int) -> Batch:
        if not answer.events:  # a progress notification, which etcd sends only to watches that are up to date
            return Batch(max(end_of(answer.header.revision), after))
        new = [version for version in changes(self._prefix, answer.events) if version.revision > after]
        for version in new if self._made else ():
            op = self._made.pop(version.key, None)
            if op is not None and op.value == version.value:
                version.make = op.make
        # Do not use the header's revision: it can be ahead of the events while the watch catches up.
        return Batch(max(end_of(answer.events[-1].kv.mod_revision), after), new)

    async def head(self) -> int:
        revision = await self._ask_for_revision()
        if any(tail.seen < revision for tail in self._tails):
            self._wanted = max(self._wanted, revision)
            if self._nudging is None or self._nudging.done():
                self._nudging = asyncio.create_task(self._nudge())
        return revision

    async def _current_revision(self) -> int:
        answer = await self._range(pb.RangeRequest(key=self._prefix + _FENCE, count_only=True))
        return end_of(answer.header.revision)

    async def _nudge(self) -> None:
        """Write the fence key again and again until all tails have reached the wanted revision.

        Another program's write can be the newest revision; only a write below our prefix makes the watch report it.
        """
        pause = _NUDGE_SECONDS
        while True:
            await asyncio.sleep(pause)
            if not any(tail.seen < self._wanted for tail in self._tails):
                return
            try:
                await self._client.call(PUT, pb.PutRequest(key=self._prefix + _FENCE))
            except StoreError as error:
                logger.warning("etcd: cannot advance the watch: %s", error)
            pause = min(pause * 2, _SLOWEST_NUDGE_SECONDS)

    @property
    def prefix(self) -> str:
        return self._prefix.decode()

    async def set_incomplete(self, is_incomplete: bool) -> None:
        """Mark the log as incomplete, so that it cannot be opened while a copy is being written, or remove the mark."""
        key, request = self._prefix + _INCOMPLETE, pb.TxnRequest()
        if is_incomplete:
            request.success.add(put=pb.PutRequest(key=key))
        else:
            request.success.add(delete=pb.DeleteRequest(key=key))
        await self._client.call(TXN, request)

    async def ttls(self, revision: int) -> dict[str, float]:
        """Return the remaining seconds until expiry of the keys with a TTL that exist at the revision, by key.

        The seconds of an expired lease are 0.
        """
        leases: dict[str, int] = {}
        start, more = self._prefix + b"\1", True
        while more:
            answer = await self._range(
                pb.RangeRequest(
                    key=start, range_end=self._end, revision=complete_at(revision), keys_only=True, limit=_KEYS_AT_ONCE
                )
            )
            leases |= {self._name(kv): kv.lease for kv in answer.kvs if kv.lease}
            more = answer.more
            if more:
                start = answer.kvs[-1].key + b"\0"
        left = {}
        for lease in set(leases.values()):
            told, _ = await self._client.call(LEASE_TTL, pb.LeaseTimeToLiveRequest(id=lease))
            left[lease] = max(float(told.ttl), 0.0)
        return {key: left[lease] for key, lease in leases.items()}

    async def probe(self) -> None:
        """Check whether etcd can be written: send a transaction whose condition is never true, so that it changes
        nothing.

        Raises Unavailable if etcd has no space or no majority, because it rejects such a transaction too. Raises
        Closed if the log is closed.
        """
        if self._closed:
            raise Closed("the log")
        fence = self._prefix + _FENCE
        request = pb.TxnRequest()
        request.compare.add(target=pb.Compare.MOD, key=fence, mod_revision=-1)
        request.success.add(put=pb.PutRequest(key=fence))
        await self._client.call(TXN, request)

    async def compact(self, revision: int) -> None:
        try:
            await self._client.call(COMPACT, pb.CompactionRequest(revision=complete_at(revision)))
        except EtcdRefused as error:
            if error.code != grpc.StatusCode.OUT_OF_RANGE:  # OUT_OF_RANGE: a later revision is already compacted
                raise

    async def close(self) -> None:
        self._closed = True
        if self._nudging is not None:
            self._nudging.cancel()
        self._ask_for_revision.close()
        await self._batches.close()
        await self._client.close()

    async def _range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        answer, _ = await self._client.call(RANGE, request)
        return answer

    def _key(self, key: str) -> bytes:
        return self._prefix + key.encode()

    def _name(self, kv: pb.KeyValue) -> str:
        return kv.key[len(self._prefix) :].decode()


def _conflict(ops: Sequence[Op], answer: pb.TxnResponse) -> RevisionConflict:
    guarded = [op for op in ops if op.expected is not None]
    for op, response in zip(guarded, answer.responses, strict=True):
        actual = state(op.key, response.range.kvs[0]).revision if response.range.kvs else 0
        if op.expected is not None and actual != op.expected:
            return RevisionConflict(op.key, op.expected, actual)
    raise AssertionError("etcd refused a transaction of which every comparison holds")
