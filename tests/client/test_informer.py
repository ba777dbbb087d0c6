"""Informers: the copy, its indexes, its deltas, and how it survives bad servers."""

import asyncio
import random
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api.errors import ApiError, Expired, Forbidden, NotFound, ServiceUnavailable
from dray.api.types.core import ConfigMap, Pod
from dray.client import (
    Delta,
    Deltas,
    EventBatch,
    Informer,
    InformerSelection,
    ManualClock,
    Page,
    SharedInformers,
    WatchEvent,
)
from dray.client.clock import settle
from tests.client.scripted import ScriptedClient, bookmark, config_map, event
from tests.waiting import within


class Recorder:
    """A handler that checks that the deltas of each object form a chain."""

    def __init__(self) -> None:
        self.batches: list[Deltas[ConfigMap]] = []
        self.state: dict[tuple[str, str], ConfigMap] = {}

    def __call__(self, deltas: Deltas[ConfigMap]) -> None:
        self.batches.append(deltas)
        for delta in deltas:
            meta = delta.object.metadata
            key = meta.namespace, meta.name
            assert self.state.get(key) is delta.old
            if delta.new is None:
                del self.state[key]
            else:
                self.state[key] = delta.new

    def changes(self) -> list[tuple[str | None, str | None]]:
        def version(obj: ConfigMap | None) -> str | None:
            return obj.metadata.resourceVersion if obj is not None else None

        return [(version(delta.old), version(delta.new)) for batch in self.batches for delta in batch]


@asynccontextmanager
async def running(informer: Informer[ConfigMap]) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        await settle()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def client() -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def informer(client: ScriptedClient, clock: ManualClock) -> Informer[ConfigMap]:
    return Informer(client, ConfigMap, clock=clock)


@pytest.fixture
def recorder(informer: Informer[ConfigMap]) -> Recorder:
    recorder = Recorder()
    informer.add_handler(recorder)
    return recorder


async def test_the_copy_follows_list_and_watch_in_batches(
    client: ScriptedClient, informer: Informer[ConfigMap], recorder: Recorder
) -> None:
    a1, b2, c3, b4 = config_map("a", 1), config_map("b", 2), config_map("c", 3), config_map("b", 4)
    client.lists.append(Page((a1, b2), "2"))
    async with running(informer):
        assert informer.has_synced
        client.live.put_nowait([event("ADDED", c3), event("MODIFIED", b4), event("DELETED", config_map("a", 5))])
        await settle()
    assert informer.get("ns", "a") is None
    assert informer.get("ns", "b") is b4
    assert informer.list() == [b4, c3]
    assert recorder.batches == [
        [Delta(None, a1), Delta(None, b2)],
        [Delta(None, c3), Delta(b2, b4), Delta(a1, None)],
    ]
    assert client.versions_watched() == ["2"]
    assert informer.resource_version == "5"


async def test_a_batch_is_let_go_while_the_next_is_waited_for(clock: ManualClock) -> None:
    class Told(list[WatchEvent[ConfigMap]]):
        """A batch that can be referred to weakly."""

    class Telling(ScriptedClient):
        async def watch(
            self, type_: type[Any], namespace: str = "", **options: Any
        ) -> AsyncGenerator[EventBatch[Any], None]:
            yield told.pop()
            await asyncio.Event().wait()

    told = [Told([event("DELETED", config_map("a", 2))])]
    batch = weakref.ref(told[0])
    client = Telling()
    client.lists.append(Page((config_map("a", 1),), "1"))
    informer = Informer(client, ConfigMap, clock=clock)
    async with running(informer):
        assert informer.resource_version == "2"
        assert batch() is None


async def test_selectors_and_namespace_reach_list_and_watch(client: ScriptedClient, clock: ManualClock) -> None:
    informer = Informer(client, ConfigMap, "ns", labels="app=x", fields="metadata.name=y", clock=clock)
    client.lists.append(Page((), "1"))
    async with running(informer):
        pass
    wanted = {"namespace": "ns", "labels": "app=x", "fields": "metadata.name=y"}
    assert [verb for verb, options in client.calls if wanted.items() <= options.items()] == ["list", "watch"]


async def test_a_bookmark_moves_the_version_and_tells_nobody(
    client: ScriptedClient, informer: Informer[ConfigMap], recorder: Recorder
) -> None:
    client.lists.append(Page((), "1"))
    client.watches.append([[bookmark(50)]])
    async with running(informer):
        assert client.versions_watched() == ["1", "50"]
    assert recorder.batches == []


async def test_objects_that_are_gone_leave_nothing_behind_when_all_is_quiet(
    client: ScriptedClient, informer: Informer[ConfigMap]
) -> None:
    """Changes wait for indexes until somebody asks, who may never come."""

    class Name(str):  # a text cannot be referred to weakly
        pass

    informer.add_index("uid", lambda obj: [obj.metadata.uid])
    client.lists.append(Page((), "1"))
    name = Name("a")
    gone = weakref.ref(name)
    async with running(informer):
        client.live.put_nowait([event("ADDED", config_map(name, 7))])
        await settle()
        assert len(informer.by_index("uid", "uid-a")) == 1
        client.live.put_nowait([event("DELETED", config_map(name, 8))])
        await settle()
        del name
        assert gone() is not None
        client.live.put_nowait([bookmark(9)])
        await settle()
        assert gone() is None
        assert informer.by_index("uid", "uid-a") == []


async def test_an_ended_watch_resumes_where_it_was_without_listing(
    client: ScriptedClient, informer: Informer[ConfigMap], recorder: Recorder
) -> None:
    client.lists.append(Page((), "1"))
    client.watches.append([[event("ADDED", config_map("a", 7))]])
    async with running(informer):
        assert client.versions_watched() == ["1", "7"]
        # A server that repeats itself is not believed twice.
        client.live.put_nowait([event("ADDED", config_map("a", 7))])
        await settle()
    assert client.count("list") == 1
    assert recorder.changes() == [(None, "7")]


async def test_an_expired_version_is_listed_again_and_the_difference_told(
    client: ScriptedClient, informer: Informer[ConfigMap], recorder: Recorder, clock: ManualClock
) -> None:
    informer.add_index("data", lambda obj: obj.data.values())
    client.lists.append(
        Page((config_map("same", 1), config_map("gone", 2, k="v"), config_map("new-uid", 3), config_map("old", 4)), "4")
    )
    client.watches.append([Expired("too old")])
    client.lists.append(
        Page((config_map("same", 1), config_map("new-uid", 9, uid="2"), config_map("old", 8), config_map("b", 7)), "9")
    )
    async with running(informer):
        await clock.advance(1)
        assert client.versions_watched() == ["4", "9"]
    assert recorder.changes()[4:] == [("2", None), ("3", None), (None, "9"), ("4", "8"), (None, "7")]
    assert informer.by_index("data", "v") == []
    assert {key[1] for key in recorder.state} == {"same", "new-uid", "old", "b"}


async def test_failures_back_off_and_recover(
    client: ScriptedClient, informer: Informer[ConfigMap], clock: ManualClock
) -> None:
    client.lists.extend(ServiceUnavailable("down") for _ in range(8))
    client.lists.append(Page((config_map("a", 1),), "1"))
    async with running(informer):
        assert client.count("list") == 1
        await clock.advance(0.2)
        assert 2 <= client.count("list") <= 4
        assert not informer.has_synced
        await clock.advance(60)
        assert informer.has_synced
        assert len(informer) == 1


async def test_an_error_that_nobody_expects_is_logged_and_the_copy_listed_anew(
    client: ScriptedClient,
    informer: Informer[ConfigMap],
    recorder: Recorder,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client.lists.extend([RuntimeError("odd list"), Page((config_map("a", 1),), "1")])
    client.watches.append([[event("MODIFIED", config_map("a", 2))], KeyError("odd event")])
    client.lists.append(Page((config_map("a", 4),), "4"))
    async with running(informer):
        await clock.advance(1)
        assert client.versions_watched() == ["1", "4"]
    assert recorder.changes() == [(None, "1"), ("1", "2"), ("2", "4")]
    assert "odd list" in caplog.text
    assert "odd event" in caplog.text


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(
    client: ScriptedClient, informer: Informer[ConfigMap], clock: ManualClock
) -> None:
    client.lists.append(Page((), "1"))
    client.watches.extend([] for _ in range(1000))
    async with running(informer):
        await clock.advance(10)
        assert 3 < client.count("watch") < 20


async def test_a_resource_that_is_not_served_counts_as_empty_and_is_asked_for_again(
    client: ScriptedClient, informer: Informer[ConfigMap], recorder: Recorder, clock: ManualClock
) -> None:
    client.served = False
    client.lists.append(NotFound("the server could not find the requested resource"))
    client.lists.append(Page((config_map("a", 1),), "1"))
    async with running(informer):
        assert informer.has_synced
        assert len(informer) == 0
        await clock.advance(31)
    assert recorder.changes() == [(None, "1")]


async def test_a_resource_that_is_not_served_any_more_is_told_as_deleted(
    client: ScriptedClient, informer: Informer[ConfigMap], recorder: Recorder
) -> None:
    client.served = False
    client.lists.append(Page((config_map("a", 1),), "1"))
    client.watches.append([NotFound("the server could not find the requested resource")])
    async with running(informer):
        assert len(informer) == 0
    assert recorder.changes() == [(None, "1"), ("1", None)]


@pytest.mark.parametrize("served", [True, NotFound("default backend - 404"), ServiceUnavailable("down")])
async def test_a_missing_path_empties_nothing_unless_discovery_confirms_it(
    client: ScriptedClient,
    informer: Informer[ConfigMap],
    recorder: Recorder,
    clock: ManualClock,
    served: bool | ApiError,
) -> None:
    client.served = served
    client.lists.append(NotFound("default backend - 404"))
    client.lists.append(Page((config_map("a", 1),), "1"))
    client.watches.append([NotFound("default backend - 404")])
    client.live.put_nowait([event("MODIFIED", config_map("a", 2))])
    async with running(informer):
        assert not informer.has_synced  # an empty copy would be believed
        await clock.advance(1)
    assert client.versions_watched() == ["1", "1"]
    assert recorder.changes() == [(None, "1"), ("1", "2")]


async def test_indexes_follow_every_change(client: ScriptedClient, informer: Informer[ConfigMap]) -> None:
    informer.add_index("value", lambda obj: obj.data.values())
    first = config_map("a", 1, one="x", two="y")
    client.lists.append(Page((first,), "1"))
    async with running(informer):
        informer.add_index("name", lambda obj: [obj.metadata.name])  # added late
        assert informer.by_index("value", "x") == informer.by_index("value", "y") == [first]
        assert informer.by_index("name", "a") == [first]
        second = config_map("a", 2, one="y", two="z")
        client.live.put_nowait([event("MODIFIED", second)])
        await settle()
        assert informer.by_index("value", "x") == []
        assert informer.by_index("value", "y") == informer.by_index("value", "z") == [second]


async def test_an_index_is_made_when_it_is_asked_and_keeps_up_with_any_number_of_changes(
    client: ScriptedClient, informer: Informer[ConfigMap]
) -> None:
    indexed: list[str] = []

    def by_value(obj: ConfigMap) -> list[str]:
        indexed.append(obj.metadata.resourceVersion)
        return [*obj.data.values()]

    informer.add_index("value", by_value)
    client.lists.append(Page((config_map("a", 1, k="first"), config_map("gone", 2, k="gone")), "2"))
    async with running(informer):
        assert not indexed
        assert [obj.metadata.name for obj in informer.by_index("value", "gone")] == ["gone"]
        client.live.put_nowait([event("DELETED", config_map("gone", 3, k="gone"))])
        for version in range(4, 5004):  # more than an index is told of at once
            client.live.put_nowait([event("MODIFIED", config_map("a", version, k=f"v{version}"))])
        while informer.resource_version != "5003":
            await settle()
        assert informer.by_index("value", "gone") == informer.by_index("value", "first") == []
        assert [obj.metadata.resourceVersion for obj in informer.by_index("value", "v5003")] == ["5003"]
        assert len(indexed) < 10  # of the states in between it saw hardly any


async def test_a_failing_handler_does_not_harm_the_others(
    client: ScriptedClient, informer: Informer[ConfigMap], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Deltas[ConfigMap]) -> None:
        raise ValueError("broken")

    recorder = Recorder()
    informer.add_handler(broken)
    informer.add_handler(recorder)
    client.lists.append(Page((config_map("a", 1),), "1"))
    async with running(informer):
        pass
    assert recorder.changes() == [(None, "1")]
    assert "a handler failed" in caplog.text


async def test_a_late_handler_gets_what_is_there_and_a_removed_one_nothing(
    client: ScriptedClient, informer: Informer[ConfigMap], recorder: Recorder
) -> None:
    client.lists.append(Page((config_map("a", 1),), "1"))
    async with running(informer):
        late = Recorder()
        remove = informer.add_handler(late)
        assert late.changes() == [(None, "1")]
        remove()
        client.live.put_nowait([event("MODIFIED", config_map("a", 2))])
        await settle()
    assert late.changes() == [(None, "1")]
    assert recorder.changes() == [(None, "1"), ("1", "2")]


async def test_list_can_be_narrowed_to_a_namespace(client: ScriptedClient, informer: Informer[ConfigMap]) -> None:
    client.lists.append(Page((config_map("a", 1), config_map("b", 2, namespace="other")), "2"))
    async with running(informer):
        assert [obj.metadata.name for obj in informer.list("other")] == ["b"]


async def test_shared_informers_are_one_a_type_and_stop_together(client: ScriptedClient) -> None:
    informers = SharedInformers(client)
    maps, pods = informers.informer(ConfigMap), informers.informer(Pod)
    assert informers.informer(ConfigMap) is maps
    assert informers.informer(Pod) is pods
    client.lists.extend([Page((), "1"), Page((), "1")])
    await informers.start()
    await informers.start()
    await within(informers.synced())
    assert informers.has_synced
    assert client.count("list") == 2
    await informers.stop()
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("informer")] == []


class RandomServer:
    """A tiny server with a history: random writes, cut watches, forgotten history, watches that start too late."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.objects: dict[str, ConfigMap] = {}
        self.history: list[tuple[int, str, ConfigMap]] = []
        self.version = 0
        self.oldest = 0
        self.changed = asyncio.Event()

    def write(self) -> None:
        self.version += 1
        name = f"o{self.random.randrange(12)}"
        old = self.objects.get(name)
        if old is not None and self.random.random() < 0.4:
            del self.objects[name]
            self.history.append((self.version, "DELETED", old))
        else:
            uid = old.metadata.uid if old is not None else f"uid-{self.version}"
            new = self.objects[name] = config_map(name, self.version, uid=uid)
            self.history.append((self.version, "MODIFIED" if old else "ADDED", new))
        if self.random.random() < 0.05:
            self.oldest = self.version - self.random.randrange(4)
        self.changed.set()

    async def list(self, *_: object, **options: object) -> Page[ConfigMap]:
        if self.random.random() < 0.1:
            raise ServiceUnavailable("busy")
        return Page(tuple(self.objects.values()), str(self.version))

    async def watch(self, *_: object, resource_version: str, **options: object) -> AsyncIterator[EventBatch[ConfigMap]]:
        at = int(resource_version)
        while self.random.random() > 0.1:
            if at < self.oldest:
                raise Expired("too old")
            batch = [(v, t, o) for v, t, o in self.history if v > at][: self.random.randrange(1, 6)]
            if batch:
                at = batch[-1][0]
                yield [WatchEvent(t, o, str(v)) for v, t, o in batch]
            else:
                self.changed.clear()
                await self.changed.wait()


@pytest.mark.parametrize("seed", range(30))
async def test_the_copy_converges_whatever_the_server_does(seed: int) -> None:
    clock, server, recorder = ManualClock(), RandomServer(seed), Recorder()
    informer = Informer(server, ConfigMap, clock=clock)  # type: ignore[arg-type]  # only list and watch are used
    informer.add_index("name", lambda obj: [obj.metadata.name])
    informer.add_handler(recorder)
    async with running(informer):
        for _ in range(150):
            server.write()
            if server.random.random() < 0.5:
                await clock.advance(server.random.random())
        await clock.advance(300)
        server.changed.set()
        await clock.advance(300)
    expected = {("ns", name): obj for name, obj in server.objects.items()}
    assert {key: obj.metadata.resourceVersion for key, obj in recorder.state.items()} == {
        key: obj.metadata.resourceVersion for key, obj in expected.items()
    }
    assert sorted(o.metadata.name for o in informer.list()) == sorted(server.objects)
    for name in (f"o{n}" for n in range(12)):
        assert [o.metadata.name for o in informer.by_index("name", name)] == ([name] if name in server.objects else [])


async def test_a_missing_permission_is_reported_once_and_the_copy_begins_when_it_is_granted(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    client = ScriptedClient()
    refusal = Forbidden('configmaps is forbidden: User "u" cannot list resource "configmaps" at the cluster scope')
    client.lists.extend([refusal] * 3)
    informer = Informer(client, ConfigMap, clock=clock)  # type: ignore[arg-type]
    async with running(informer):
        await within(informer.settled())
        assert informer.denied == str(refusal)
        assert not informer.has_synced
        client.lists.append(Page((config_map("a", 1),), "1"))
        await clock.advance(10)
        await within(informer.synced())
        client.live.put_nowait((bookmark(2),))
        await settle()
        assert informer.denied == ""
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        f"configmaps cannot be followed, which takes the verbs list and watch: {refusal}",
        "configmaps can be followed now",
    ]


async def test_a_selection_tells_what_one_user_of_shared_informers_lacks(clock: ManualClock) -> None:
    client = ScriptedClient()
    client.lists.extend([Forbidden("no"), Page((), "1")])
    shared = SharedInformers(client, clock=clock)  # type: ignore[arg-type]
    lacking, other = InformerSelection(shared), InformerSelection(shared)
    lacking.informer(ConfigMap)
    other.informer(Pod)
    await lacking.start()
    await within(other.synced())
    await within(lacking.settled())
    assert (lacking.denied, other.denied) == ({ConfigMap: "no"}, {})
    assert not lacking.has_synced
    await shared.stop()
