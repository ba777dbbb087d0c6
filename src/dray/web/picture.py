"""One picture of a cluster for one identity: tables, kept by informers, sent to every page that this identity has open.

Informers note what changed; a tenth of a second later the rows are made, in short turns, and one message goes to all
pages. Rights are asked for again every ten seconds; when less may be read, rows go, history is forgotten and pages
start again. Left out: the connection of a page (`streaming`), and questions (`questions`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from dray.api.allocations import DeviceId
from dray.api.availability import DeviceState
from dray.api.claim_lifecycle import TRANSITIONS
from dray.api.errors import ApiError, Unauthorized
from dray.api.pools import PoolName
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup, Workload
from dray.api.wire import Tree
from dray.client import Deltas, Key
from dray.web.access import Access, QuestionError, SessionIdentity
from dray.web.analyst import ClusterAnalyst
from dray.web.causes import LOOK_SECONDS, Causes
from dray.web.consumers import DashboardConsumers
from dray.web.following import Following
from dray.web.history import SERIES, DashboardHistory
from dray.web.inventory import DashboardInventory
from dray.web.poolcounts import pool_counts
from dray.web.reading import PLACEMENT, REFUSED_CLAIMS, facts
from dray.web.rights import Scopes, VisibleScope, as_tree, is_less, may_measure, scopes
from dray.web.rows.claims import PodState
from dray.web.rows.nodes import class_row, node_row
from dray.web.sampling import sample_of
from dray.web.streaming import OpenPage, event
from dray.web.tables import COLUMNS, RowTable, Strings, TableRow

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.1  # changes of several types that come within this time are told together
_TURN_SECONDS = 0.005  # of the event loop for making rows, then others have a turn
_RIGHTS_SECONDS = 10.0
_COUNTS_SECONDS = 30.0  # between requests for pool status, of which a user may make ten a minute
ROWS = 4096  # of a message; more take a browser too long to read at once


class DashboardPicture:
    """The picture of one identity. `run` keeps it until it is cancelled or the identity is not let in any more."""

    def __init__(self, identity: SessionIdentity, access: Access, analyst: ClusterAnalyst, version: str) -> None:
        self.identity = identity
        self.access = access
        self.client = access.client(identity)
        self.epoch = secrets.token_hex(8)
        self.tables = {name: RowTable(name) for name in COLUMNS}
        self.strings = Strings()
        self.history = DashboardHistory()
        self.inventory = DashboardInventory(self.tables, self.strings, self._device_changed)
        self.consumers = DashboardConsumers(self.tables, self.strings, self.inventory, time.time)
        self.consumers.claim_gone = self._claim_gone
        self.causes = Causes(analyst, self.tables["pods"], self.tables["causes"], self.consumers.waiting)
        self.following = Following(self.client, identity.namespace, self._handlers())
        self.consumers.following = self.following
        self.ready = asyncio.Event()
        self.pages: set[OpenPage] = set()
        self.last_page = time.monotonic()
        self.turn = asyncio.Lock()  # one question at a time
        self.asking = 0  # questions that wait or are being answered
        self._version = version
        self._nodes: dict[str, Node | None] = {}  # changed, or gone
        self._changed = asyncio.Event()
        self._may_measure = False
        self._seq = 0
        self._sampled = 0

    @property
    def scopes(self) -> Scopes:
        return self.following.scopes

    async def run(self) -> None:
        """Keep the picture. Raises Unauthorized when the identity is not let in any more."""
        try:
            await self._follow(await self._rights())
            async with asyncio.TaskGroup() as tasks:
                for work in (self._refreshing, self._sampling, self._asking_rights, self._explaining, self._counting):
                    tasks.create_task(work())
        except* Unauthorized:
            raise Unauthorized("the session has ended") from None
        finally:
            await self.following.close()
            await self.client.aclose()

    # What changes

    def _handlers(self) -> dict[type[Any], Any]:
        work = {
            Node: self._nodes_changed,
            ResourceSlice: self.inventory.slices_changed,
            DeviceClass: self._classes_changed,
            DeviceTaintRule: self.inventory.rules_changed,
            ResourceClaim: self.consumers.claims_changed,
            Pod: self.consumers.pods_changed,
            PodGroup: self.consumers.groups_changed,
            Workload: self.consumers.workloads_changed,
        }
        return {type_: self._noting(handler) for type_, handler in work.items()}

    def _noting(self, handler: Any) -> Any:
        def handle(deltas: Deltas[Any]) -> None:
            handler(deltas)
            self._changed.set()

        return handle

    def _nodes_changed(self, deltas: Deltas[Node]) -> None:
        self._nodes.update({delta.object.metadata.name: delta.new for delta in deltas})
        self.consumers.nodes_changed()

    def _refresh_nodes(self) -> Iterator[None]:
        while self._nodes:
            name, node = self._nodes.popitem()
            if node is not None:
                self.tables["nodes"].put(name, node_row(node, self.strings))
            else:
                self.tables["nodes"].drop(name)
            yield

    def _classes_changed(self, deltas: Deltas[DeviceClass]) -> None:
        for old, new in deltas:
            if new is not None:
                self.tables["classes"].put(new.metadata.name, class_row(new))
            elif old is not None:
                self.tables["classes"].drop(old.metadata.name)

    def _device_changed(self, device: DeviceId, number: int, before: TableRow | None, after: TableRow | None) -> None:
        if self.ready.is_set():
            now = time.time()
            self.history.changed(number, before, now)
            if after is None:
                self.history.device_gone(number, f"{device.driver}/{device.pool}", device.device, now)

    def _claim_gone(self, number: int, key: Key) -> None:
        self.history.claim_gone(number, "/".join(key), time.time())

    # Keeping up

    async def _refreshing(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.refresh()
            await asyncio.sleep(GATHER_SECONDS)

    async def refresh(self) -> None:
        """Make rows of everything that was noted, and tell the pages."""
        ends = time.perf_counter() + _TURN_SECONDS
        for _ in self._pieces():
            if time.perf_counter() > ends:
                await asyncio.sleep(0)
                ends = time.perf_counter() + _TURN_SECONDS
        for message in self._messages():
            for page in [*self.pages]:
                page.put(message)
            await asyncio.sleep(0)

    def _pieces(self) -> Iterator[None]:
        yield from self._refresh_nodes()
        yield from self.consumers.refresh()
        yield from self.inventory.refresh()

    def _messages(self) -> Iterator[bytes]:
        while True:
            left, found = ROWS, {}
            for name, table in self.tables.items():
                if left > 0 and (columns := table.take_changes(left)) is not None:
                    found[name] = columns
                    left -= len(columns.get("set", {}).get("id", ()))
            if not found:
                return
            self._seq += 1
            first, strings = self.strings.take_new()
            head = {"seq": self._seq, "at": time.time(), "first": first, "strings": strings}
            yield event("rows", head | found)

    def first(self) -> Iterator[bytes]:
        """The picture as it is now, as messages; what comes after this call must be told after them."""
        hello, seq = event("hello", self._hello()), self._seq
        rows = {name: [*table.rows.items()] for name, table in self.tables.items()}
        return self._first(hello, seq, rows)

    def _first(self, hello: bytes, seq: int, rows: dict[str, list[tuple[int, TableRow]]]) -> Iterator[bytes]:
        yield hello
        for name, known in rows.items():
            for piece in self.tables[name].pieces(known, ROWS):
                yield event("rows", {"seq": seq, "at": time.time(), "first": 0, "strings": [], name: piece})
        yield event("ready", {"seq": seq})

    def _hello(self) -> Tree:
        return {
            "epoch": self.epoch,
            "version": self._version,
            "user": self.identity.name,
            "namespace": self.identity.namespace,
            "server": self.access.server,
            "mode": self.access.mode,
            "now": time.time(),
            "resources": as_tree(self.scopes),
            "strings": self.strings.all,
            "states": {
                "device": [state.name.lower() for state in DeviceState],
                "pod": [state.name.lower() for state in PodState],
            },
            "lifecycle": {
                state.value: {happens.value: then.value for happens, then in after.items()}
                for state, after in TRANSITIONS.items()
            },
        }

    async def _sampling(self) -> None:
        while True:
            await asyncio.sleep(1.0 - time.time() % 1.0)
            self.inventory.measure(self.access.operations() if self._may_measure else {})
            self.inventory.refresh_drivers()
            self._changed.set()
            values = sample_of(self.inventory, self.consumers, self.scopes, self._sampled)
            self._sampled = self.consumers.allocations
            self.history.sample(values)
            message = event("sample", dict(zip(SERIES, values, strict=True)))
            for page in [*self.pages]:
                page.put(message)

    # Rights

    async def _rights(self) -> Scopes:
        """What may be read; asks until the server answers."""
        while True:
            try:
                self._may_measure = await may_measure(self.client)
                return await scopes(self.client, self.identity.namespace)
            except Unauthorized:
                raise
            except ApiError as error:
                log.warning("dashboard of %s: rights are not known: %s", self.identity.name, error)
                await asyncio.sleep(1.0)

    async def _asking_rights(self) -> None:
        while True:
            await asyncio.sleep(_RIGHTS_SECONDS)
            await self.access.restore(self.identity.credential)
            await self._follow(await self._rights())

    async def _follow(self, now: Scopes) -> None:
        before = self.scopes
        if before == now:
            return
        less = bool(before) and is_less(before, now)
        await self.following.follow(now)
        self.inventory.claims_known = now[ResourceClaim] is VisibleScope.ALL
        self.inventory.judge_all()
        await self.refresh()
        self.inventory.refresh_drivers()
        if less:
            self.history.clear(time.time())
        self.ready.set()
        for page in [*self.pages]:
            if less:
                page.end("restarted")
            else:
                page.put(event("rights", {"resources": as_tree(now)}))

    # What takes long

    async def _explaining(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.pages and (self.consumers.waiting or self.consumers.causes):
                await self._trying("why pods wait", self._explain)

    async def _explain(self) -> None:
        self.consumers.explained(await self.causes.look(lambda: facts(self, (*PLACEMENT, REFUSED_CLAIMS))))
        self._changed.set()

    async def _counting(self) -> None:
        """A user who may not read all claims learns from the cluster how full pools are."""
        while True:
            if self.pages and not self.inventory.claims_known:
                await self._trying("how full pools are", self._count)
                await asyncio.sleep(_COUNTS_SECONDS)
            else:
                await asyncio.sleep(1.0)

    async def _count(self) -> None:
        counts = await pool_counts(self.client, {name.driver for name in self.inventory.views})
        self.inventory.count({PoolName(*pool): numbers for pool, numbers in counts.items()})
        self._changed.set()

    async def _trying(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Find out something that the picture can do without for a while."""
        try:
            await work()
        except Unauthorized:
            raise
        except (ApiError, QuestionError, TimeoutError, RuntimeError) as error:
            log.warning("dashboard of %s: %s is not known: %s", self.identity.name, what, error or "too late")
