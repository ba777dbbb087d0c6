"""Picture of a cluster for one identity: tables updated by informers and sent to all open pages of that identity.

Informers record changes; 0.1 s later the rows are computed in short turns, and one message goes to all pages. Rights
are checked every ten seconds; if the identity loses rights, rows are dropped, the history is cleared and pages
restart. `streaming` sends messages to a page, `questions` answers questions.
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

GATHER_SECONDS = 0.1  # changes of several types within this time are sent together
_TURN_SECONDS = 0.005  # maximum time on the event loop for computing rows, before other work runs
_RIGHTS_SECONDS = 10.0
_COUNTS_SECONDS = 30.0  # between requests for pool status, of which a user may make ten per minute
ROWS = 4096  # maximum rows per message, because a browser needs too long to process more


class DashboardPicture:
    """What a dashboard shows to one identity: tables of a cluster, updated by informers.

    `run` updates them until it is cancelled or the identity is no longer authorized.
    """

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
        self.asking = 0  # number of questions that wait or are being answered
        self._version = version
        self._nodes: dict[str, Node | None] = {}  # changed nodes; None if deleted
        self._changed = asyncio.Event()
        self._may_measure = False
        self._seq = 0
        self._sampled = 0

    @property
    def scopes(self) -> Scopes:
        """How much of each type the identity may read."""
        return self.following.scopes

    async def run(self) -> None:
        """Update the picture. Raises Unauthorized when the identity is no longer authorized."""
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

    # Changes

    def _handlers(self) -> dict[type[Any], Any]:
        """Return the informer handler for each type."""
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
        """Return the handler extended to trigger a refresh."""

        def handle(deltas: Deltas[Any]) -> None:
            handler(deltas)
            self._changed.set()

        return handle

    def _nodes_changed(self, deltas: Deltas[Node]) -> None:
        """Record changed nodes."""
        self._nodes.update({delta.object.metadata.name: delta.new for delta in deltas})
        self.consumers.nodes_changed()

    def _refresh_nodes(self) -> Iterator[None]:
        """Update the rows of changed nodes, yielding after each."""
        while self._nodes:
            name, node = self._nodes.popitem()
            if node is not None:
                self.tables["nodes"].put(name, node_row(node, self.strings))
            else:
                self.tables["nodes"].drop(name)
            yield

    def _classes_changed(self, deltas: Deltas[DeviceClass]) -> None:
        """Update the rows of changed DeviceClasses."""
        for old, new in deltas:
            if new is not None:
                self.tables["classes"].put(new.metadata.name, class_row(new))
            elif old is not None:
                self.tables["classes"].drop(old.metadata.name)

    def _device_changed(self, device: DeviceId, number: int, before: TableRow | None, after: TableRow | None) -> None:
        """Record a changed device in the history.

        Nothing is recorded until the picture is complete. `after` is None if the device is gone.
        """
        if self.ready.is_set():
            now = time.time()
            self.history.changed(number, before, now)
            if after is None:
                self.history.device_gone(number, f"{device.driver}/{device.pool}", device.device, now)

    def _claim_gone(self, number: int, key: Key) -> None:
        """Record the name of a deleted claim in the history."""
        self.history.claim_gone(number, "/".join(key), time.time())

    # Updates

    async def _refreshing(self) -> None:
        """Refresh whenever changes were recorded, at most every 0.1 s."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self.refresh()
            await asyncio.sleep(GATHER_SECONDS)

    async def refresh(self) -> None:
        """Compute the rows of all recorded changes, and send them to the pages."""
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
        """Yield the rows changed since the last call as messages for the pages."""
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
        """Return the whole picture as messages. Later messages must be sent after them."""
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
        """Return the content of the first message: identity, rights, strings and states."""
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
        """Add a point to the time series every second, and send it to the pages."""
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
        """Return how much of each type the identity may read. Retries until the server answers."""
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
        """Check credential and rights every ten seconds."""
        while True:
            await asyncio.sleep(_RIGHTS_SECONDS)
            await self.access.restore(self.identity.credential)
            await self._follow(await self._rights())

    async def _follow(self, now: Scopes) -> None:
        """Follow the types that may be read now. If rights were lost, clears the history and restarts the pages.

        Does nothing if the rights are unchanged.
        """
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

    # Background work

    async def _explaining(self) -> None:
        """Find the causes of waiting pods periodically while a page is open."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.pages and (self.consumers.waiting or self.consumers.causes):
                await self._trying("why pods wait", self._explain)

    async def _explain(self) -> None:
        """Update the causes of waiting pods."""
        self.consumers.explained(await self.causes.look(lambda: facts(self, (*PLACEMENT, REFUSED_CLAIMS))))
        self._changed.set()

    async def _counting(self) -> None:
        """Request pool status periodically for a user who may not read all claims, while a page is open."""
        while True:
            if self.pages and not self.inventory.claims_known:
                await self._trying("how full pools are", self._count)
                await asyncio.sleep(_COUNTS_SECONDS)
            else:
                await asyncio.sleep(1.0)

    async def _count(self) -> None:
        """Update the numbers of devices per pool."""
        counts = await pool_counts(self.client, {name.driver for name in self.inventory.views})
        self.inventory.count({PoolName(*pool): numbers for pool, numbers in counts.items()})
        self._changed.set()

    async def _trying(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run optional work. Errors of the API except Unauthorized, of questions and of time are logged with `what`.

        RuntimeErrors are logged too; anything else is raised.
        """
        try:
            await work()
        except Unauthorized:
            raise
        except (ApiError, QuestionError, TimeoutError, RuntimeError) as error:
            log.warning("dashboard of %s: %s is not known: %s", self.identity.name, what, error or "too late")
