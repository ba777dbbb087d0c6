"""Sends the commits that arrive at about the same time to etcd as one transaction.

Every proposal costs etcd a round trip between its members and a write to the disk, and costs this process a gRPC call, so
many small transactions are slow. etcd allows transactions inside a transaction, each with comparisons of its own: a commit
whose comparison fails then fails alone. etcd refuses a transaction that writes a key twice, so commits that share a key go
into different batches, in the order in which they arrived. Left out: what a commit means (`etcd`), the connection
(`etcd_client`).
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

_BATCH_OPS = 96  # etcd accepts 128 operations on each level by default; a batch has one for each commit
_BATCH_BYTES = 512 * 1024  # of values; etcd accepts 1.5 MiB in a request
_IN_FLIGHT = 2  # batches that etcd may work on at once: one is written to the disk while the next one travels


class CommitOutcome(Struct, frozen=True):
    """Etcd's answer to one commit. `is_repeated`: an earlier attempt may have been carried out as well."""

    answer: pb.TxnResponse
    revision: int
    is_repeated: bool


class WaitingCommit(Struct, eq=False):
    """A commit that has not been answered, with the lease of each operation (0: none)."""

    ops: Sequence[Op]
    leases: Sequence[int]
    done: asyncio.Future[CommitOutcome]

    @property
    def size(self) -> int:
        return sum(len(op.value) for op in self.ops if op.value is not None)

    def transaction(self, prefix: bytes, position: int) -> pb.TxnRequest:
        """The commit as an etcd transaction at a position of a batch."""
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
        if not self.done.done():  # else nobody waits any more
            self.done.set_result(outcome)

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class CommitBatches:
    """The commits that wait for etcd, and the batches that are on their way."""

    def __init__(self, client: EtcdClient, prefix: bytes) -> None:
        self._client = client
        self._prefix = prefix
        self._waiting: list[WaitingCommit] = []
        self._in_flight: dict[asyncio.Task[None], frozenset[str]] = {}  # with the keys that each batch writes
        self._is_closed = False

    async def commit(self, ops: Sequence[Op], leases: Sequence[int]) -> CommitOutcome:
        """Send one commit, together with others. Raises EtcdRefused and Unavailable."""
        if self._is_closed:
            raise Closed("the log")
        loop = asyncio.get_running_loop()
        waiting = WaitingCommit(ops, leases, loop.create_future())
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            loop.call_soon(self._send)  # whatever else is committed in this turn of the event loop goes along
        return await waiting.done

    async def close(self) -> None:
        """Fail what has not been answered: whether it was carried out is not known."""
        self._is_closed = True
        for waiting in self._waiting:
            waiting.fail(Closed("the log"))
        self._waiting.clear()
        tasks = [*self._in_flight]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _send(self) -> None:
        """Send batches while there is something to send and room on the way."""
        while len(self._in_flight) < _IN_FLIGHT and (batch := self._next_batch()):
            task = asyncio.create_task(self._carry_out(batch))
            self._in_flight[task] = frozenset(op.key for commit in batch for op in commit.ops)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._in_flight[task]
        if not self._is_closed:
            self._send()

    def _next_batch(self) -> list[WaitingCommit]:
        """Take the commits of the next batch: the oldest ones, as many as fit, that share no key with earlier ones."""
        taken: set[str] = set().union(*self._in_flight.values())
        batch: list[WaitingCommit] = []
        left: list[WaitingCommit] = []
        ops = size = 0
        for place, commit in enumerate(self._waiting):
            if commit.done.done():
                continue  # its caller was cancelled before it was sent
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
        except Exception as error:  # whatever it is, each caller must be told
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
            for commit in batch:  # one of them is to blame (it is too large, its lease was revoked): find out which
                await self._carry_out_alone(commit)
            return
        responses = list(answer.responses)[-len(batch) :]  # a record of deletions comes before them
        for (position, commit), response in zip(positions.items(), responses, strict=True):
            revision = revision_of(answer.header.revision, position)
            commit.resolve(CommitOutcome(response.txn, revision, is_repeated))

    def _record_deletions(self, request: pb.TxnRequest, commits: Mapping[int, WaitingCommit]) -> None:
        """Write down the positions of deletions, which have no value that could tell."""
        positions = {op.key: at for at, commit in commits.items() for op in commit.ops if op.value is None}
        if positions:
            record = pb.PutRequest(key=self._prefix + DELETIONS, value=deletions_record(positions))
            request.success.insert(0, pb.RequestOp(put=record))


assert _BATCH_OPS <= LAST
