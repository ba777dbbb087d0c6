"""Combines commits that arrive at about the same time into one etcd transaction.

Every proposal costs etcd a round trip between its members and a disk write, and costs this process a gRPC call,
so many small transactions are slow. etcd supports nested transactions with separate conditions, so a commit whose
condition fails does not affect the others. etcd rejects a transaction that writes a key twice, so commits with a
common key go into different batches, in order of arrival. `etcd` defines the meaning of commits, `etcd_client`
handles the connection.
"""

import asyncio
from collections.abc import Mapping, Sequence

import grpc
from msgspec import Struct

from dray.store import etcd_pb2 as pb
from dray.store.errors import Closed
from dray.store.etcd_client import TXN, EtcdClient, EtcdRefused
from dray.store.etcd_revisions import (
    DELETIONS,
    LAST,
    comparisons,
    deletions_record,
    first_position,
    revision_of,
    with_position,
)
from dray.store.log import Op

_BATCH_OPS = 96  # etcd accepts 128 operations per level by default; a batch has one per commit
_BATCH_BYTES = 512 * 1024  # maximum size of values; etcd accepts 1.5 MiB per request
_IN_FLIGHT = 2  # concurrent batches: etcd writes one to disk while the next is being sent


class CommitOutcome(Struct, frozen=True):
    """etcd's response to one commit. `is_repeated` says that an earlier attempt may have been done as well."""

    answer: pb.TxnResponse
    revision: int
    is_repeated: bool


class WaitingCommit(Struct, eq=False):
    """A commit without a response yet, with the lease of each operation (0: none)."""

    ops: Sequence[Op]
    leases: Sequence[int]
    done: asyncio.Future[CommitOutcome]

    @property
    def size(self) -> int:
        return sum(len(op.value) for op in self.ops if op.value is not None)

    def transaction(self, prefix: bytes, position: int) -> pb.TxnRequest:
        """Return the commit as an etcd transaction for a position in a batch."""
        request = pb.TxnRequest()
        for op, lease in zip(self.ops, self.leases, strict=True):
            key = prefix + op.key.encode()
            if op.expected is not None:
                request.compare.extend(comparisons(key, op.expected))
                request.failure.add(range=pb.RangeRequest(key=key))
            if op.value is None:
                request.success.add(delete=pb.DeleteRequest(key=key))
            else:
                request.success.add(put=pb.PutRequest(key=key, value=with_position(op.value, position), lease=lease))
        return request

    def resolve(self, outcome: CommitOutcome) -> None:
        if not self.done.done():  # otherwise the caller was cancelled
            self.done.set_result(outcome)

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class CommitBatches:
    """Queue of commits for etcd, and the batches that have been sent."""

    def __init__(self, client: EtcdClient, prefix: bytes) -> None:
        self._client = client
        self._prefix = prefix
        self._waiting: list[WaitingCommit] = []
        self._in_flight: dict[asyncio.Task[None], frozenset[str]] = {}  # task of each batch → keys that it writes
        self._is_closed = False

    async def commit(self, ops: Sequence[Op], leases: Sequence[int]) -> CommitOutcome:
        """Send one commit, together with others that arrive at the same time. Returns etcd's response to it.

        Raises EtcdRefused, Unavailable or Closed.
        """
        if self._is_closed:
            raise Closed("the log")
        loop = asyncio.get_running_loop()
        waiting = WaitingCommit(ops, leases, loop.create_future())
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            loop.call_soon(self._send)  # further commits in this turn of the event loop join the batch
        return await waiting.done

    async def close(self) -> None:
        """Fail all commits without a response with Closed; they may or may not have been done."""
        self._is_closed = True
        for waiting in self._waiting:
            waiting.fail(Closed("the log"))
        self._waiting.clear()
        tasks = [*self._in_flight]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _send(self) -> None:
        """Send batches while commits are waiting and fewer than the maximum number of batches are in flight."""
        while len(self._in_flight) < _IN_FLIGHT and (batch := self._next_batch()):
            task = asyncio.create_task(self._carry_out(batch))
            self._in_flight[task] = frozenset(op.key for commit in batch for op in commit.ops)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._in_flight[task]
        if not self._is_closed:
            self._send()

    def _next_batch(self) -> list[WaitingCommit]:
        """Remove and return the oldest commits that fit in a batch and share no key with earlier ones.

        The list is empty if all commits have to wait. A commit that is larger than a batch is a batch of its own.
        """
        taken: set[str] = set().union(*self._in_flight.values())
        batch: list[WaitingCommit] = []
        left: list[WaitingCommit] = []
        ops = size = 0
        for place, commit in enumerate(self._waiting):
            if commit.done.done():
                continue  # the caller was cancelled before the commit was sent
            if batch and (ops + len(commit.ops) > _BATCH_OPS or size + commit.size > _BATCH_BYTES):
                left += self._waiting[place:]
                break
            keys = [op.key for op in commit.ops]
            if taken.isdisjoint(keys):
                batch.append(commit)
                ops += len(keys)
                size += commit.size
            else:
                left.append(commit)
            taken.update(keys)  # a later commit of a key must not overtake an earlier one
        self._waiting = left
        return batch

    async def _carry_out(self, batch: Sequence[WaitingCommit]) -> None:
        try:
            if len(batch) == 1:
                await self._carry_out_alone(batch[0])
            else:
                await self._carry_out_together(batch)
        except asyncio.CancelledError:
            for commit in batch:
                commit.fail(Closed("the log"))
            raise
        except Exception as error:  # every caller must get a response
            for commit in batch:
                commit.fail(error)

    async def _carry_out_alone(self, commit: WaitingCommit) -> None:
        request = commit.transaction(self._prefix, LAST)
        if len(commit.ops) > 1:
            self._record_deletions(request, {LAST: commit})
        try:
            answer, is_repeated = await self._client.call(TXN, request)
        except EtcdRefused as error:
            commit.fail(error)
        else:
            commit.resolve(CommitOutcome(answer, revision_of(answer.header.revision, LAST), is_repeated))

    async def _carry_out_together(self, batch: Sequence[WaitingCommit]) -> None:
        positions = dict(enumerate(batch, first_position(len(batch))))
        request = pb.TxnRequest(
            success=[pb.RequestOp(txn=commit.transaction(self._prefix, at)) for at, commit in positions.items()]
        )
        self._record_deletions(request, positions)
        try:
            answer, is_repeated = await self._client.call(TXN, request)
        except EtcdRefused as error:
            if error.code not in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND):
                raise
            for commit in batch:  # one commit caused the error (too large, or its lease was revoked): send each alone
                await self._carry_out_alone(commit)
            return
        responses = list(answer.responses)[-len(batch) :]  # skip the response for the record of deletions
        for (position, commit), response in zip(positions.items(), responses, strict=True):
            revision = revision_of(answer.header.revision, position)
            commit.resolve(CommitOutcome(response.txn, revision, is_repeated))

    def _record_deletions(self, request: pb.TxnRequest, commits: Mapping[int, WaitingCommit]) -> None:
        """Add an operation that stores the positions of deletions, which have no value."""
        positions = {op.key: at for at, commit in commits.items() for op in commit.ops if op.value is None}
        if positions:
            record = pb.PutRequest(key=self._prefix + DELETIONS, value=deletions_record(positions))
            request.success.insert(0, pb.RequestOp(put=record))


assert _BATCH_OPS <= LAST
