"""The local logs against a model that keeps every state: random commits, reads, compactions, reopenings."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dray.store import Cache, Compacted, KeyVersion, Log, MemoryLog, Op, RevisionConflict, RevisionExpired, SqliteLog

KEYS = ["a/1", "a/2", "a/n/1", "b/1", "b/2"]
State = dict[str, tuple[bytes, int, int]]
"""key → value, revision, created."""
T = TypeVar("T")

writes = st.lists(
    st.tuples(
        st.sampled_from(KEYS), st.none() | st.binary(max_size=3), st.sampled_from(["any", "right", "absent", "wrong"])
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda write: write[0],
)


def shown(versions: list[KeyVersion]) -> State:
    return {v.key: (v.value or b"", v.revision, v.created) for v in versions}


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.states: list[State] = [{}]  # by revision
        self.changes: list[set[str]] = [set()]
        self.floor = 0
        self.log, self.cache = self.run(self.open())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def open(self) -> tuple[Log, Cache]:
        log = await self.open_log()
        return log, await Cache.open(log)

    async def open_log(self) -> Log:
        return MemoryLog()

    async def close(self) -> None:
        await self.cache.close()
        await self.log.close()

    def teardown(self) -> None:
        self.run(self.close())
        self.runner.close()

    @property
    def head(self) -> int:
        return len(self.states) - 1

    def expected(self, key: str, choice: str) -> int | None:
        actual = self.states[-1].get(key, (b"", 0, 0))[1]
        return {"any": None, "right": actual, "absent": 0, "wrong": actual + 1}[choice]

    @rule(writes=writes)
    def commit(self, writes: list[tuple[str, bytes | None, str]]) -> None:
        ops = [Op(key, value, self.expected(key, choice)) for key, value, choice in writes]
        state, revision = dict(self.states[-1]), self.head + 1
        changed = set()
        for op in ops:
            _, actual, created = state.get(op.key, (b"", 0, revision))
            if op.expected not in (None, actual):
                with pytest.raises(RevisionConflict) as conflict:
                    self.run(self.cache.commit(ops))
                assert (conflict.value.key, conflict.value.actual) == (op.key, actual)
                return
            if op.value is not None:
                state[op.key] = (op.value, revision, created)
                changed.add(op.key)
            elif actual:
                del state[op.key]
                changed.add(op.key)
        assert self.run(self.cache.commit(ops)) == (revision if changed else self.head)
        if changed:
            self.states.append(state)
            self.changes.append(changed)

    @rule(data=st.data(), limit=st.integers(1, 6))
    def load_in_pages(self, data: st.DataObject, limit: int) -> None:
        revision = data.draw(st.integers(0, self.head))
        if revision < self.floor:
            with pytest.raises(Compacted):
                self.run(self.log.load(revision))
            return
        found: list[KeyVersion] = []
        while True:
            page = self.run(self.log.load(revision, found[-1].key if found else "", limit))
            found += page.versions
            if not page.remaining:
                break
        assert [version.key for version in found] == sorted(self.states[revision])
        assert shown(found) == self.states[revision]

    @rule(data=st.data())
    def follow(self, data: st.DataObject) -> None:
        after = data.draw(st.integers(0, self.head))

        async def tail() -> list[KeyVersion]:
            async for batch in self.log.tail(after):
                return list(batch.versions)
            return []

        if after < self.floor:
            with pytest.raises(Compacted):
                self.run(tail())
        elif after < self.head:
            expected = [(n, key) for n in range(after + 1, self.head + 1) for key in sorted(self.changes[n])]
            assert sorted((v.revision, v.key) for v in self.run(tail())) == expected

    @rule(data=st.data(), prefix=st.sampled_from(["", "a/", "a/n/", "b/"]), limit=st.none() | st.integers(1, 3))
    def list_from_the_cache(self, data: st.DataObject, prefix: str, limit: int | None) -> None:
        revision = data.draw(st.integers(0, self.head))
        if revision < self.cache.oldest:
            with pytest.raises(RevisionExpired):
                self.cache.list(prefix, revision=revision)
            return
        found: list[KeyVersion] = []
        while True:
            page = self.cache.list(prefix, revision=revision, after=found[-1].key if found else "", limit=limit)
            found += page.versions
            if not page.remaining:
                break
        assert [version.key for version in found] == sorted(
            key for key in self.states[revision] if key.startswith(prefix)
        )
        assert shown(found).items() <= self.states[revision].items()

    @rule(data=st.data())
    def watch_from_the_cache(self, data: st.DataObject) -> None:
        after = data.draw(st.integers(self.cache.oldest, self.head))
        state = dict(self.states[after])

        async def events() -> None:
            watch = self.cache.watch("", after)
            for event in await watch.next(timeout=0):
                before = event.previous
                assert state.pop(event.key, None) == (before and (before.value, before.revision, before.created))
                if event.version.value is not None:
                    state[event.key] = (event.version.value, event.version.revision, event.version.created)
            watch.close()

        self.run(events())
        assert state == self.states[-1]

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        revision = data.draw(st.integers(0, self.head))
        self.run(self.log.compact(revision))
        self.floor = max(self.floor, revision)

    @invariant()
    def the_latest_state_is_there(self) -> None:
        assert self.cache.revision == self.run(self.log.head()) == self.head
        assert shown(self.run(self.log.load()).versions) == self.states[-1]
        assert shown(self.cache.list("").versions) == self.states[-1]


class SqliteMachine(LogMachine):
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        super().__init__()

    async def open_log(self) -> Log:
        return await SqliteLog.open(self.directory / "store.db")

    @precondition(lambda self: self.head > 0)
    @rule()
    def reopen(self) -> None:
        self.run(self.close())
        self.log, self.cache = self.run(self.open())
        # What a compaction had to forget may not have been forgotten yet: then older revisions can still be read.
        self.floor = self.cache.oldest

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.directory)


TestMemory = LogMachine.TestCase
TestMemory.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
