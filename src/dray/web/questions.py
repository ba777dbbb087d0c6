"""Questions of a page: checked here, answered by the analyst in a thread, and translated into numbers of rows.

A thread shares the objects that informers hold, which are frozen; another process would need a copy of all of them. One
question of a user is answered at a time, few wait, and each has a deadline, so that nobody's questions take the server
over. Left out: the answers themselves (`Analyst`), and what was (`past`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dray.api.allocations import DeviceId
from dray.api.errors import Forbidden, NotFound
from dray.api.pools import PoolName
from dray.api.resources import BY_TYPE
from dray.api.types.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from dray.api.types.batch import CronJob, Job
from dray.api.types.core import Event, Namespace, Pod, ResourceQuota
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from dray.api.types.scheduling import PriorityClass
from dray.api.wire import Tree
from dray.client import Client
from dray.web.access import Analyst, Candidate, Facts, Refused
from dray.web.details import device_tree
from dray.web.past import past_tree
from dray.web.rights import FOLLOWED, Scope
from dray.web.rows.devices import PoolView
from dray.web.tables import ranges

if TYPE_CHECKING:
    from dray.web.picture import Picture

T = TypeVar("T")

SECONDS = 10.0
MATCH_SECONDS = 3.0
MOST_WAITING = 4
_THREADS = 2  # one for what people ask, one for causes
_ON_DEMAND: tuple[type[Any], ...] = (
    ResourceClaimTemplate,
    Namespace,
    ResourceQuota,
    PriorityClass,
    PodDisruptionBudget,
    Event,
)
_OWNERS: tuple[type[Any], ...] = (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob)
_MOST_COPIES = 100_000


class Match(msgspec.Struct, forbid_unknown_fields=True):
    """Which devices an expression selects, of those of a class."""

    expression: str = ""
    class_: str = msgspec.field(default="", name="class")


class Named(msgspec.Struct, forbid_unknown_fields=True):
    """A pod."""

    name: str
    namespace: str = "default"


class MoreNodes(msgspec.Struct, forbid_unknown_fields=True):
    like: str
    count: int = 1


class Attempt(msgspec.Struct, forbid_unknown_fields=True):
    """What would happen."""

    manifest: str = ""
    namespace: str = "default"
    howMany: bool = False
    atMost: int = 1000
    drain: list[str] = []
    addNodes: MoreNodes | None = None
    pod: Named | None = None
    change: Tree | None = None


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A question without parts."""


class At(msgspec.Struct, forbid_unknown_fields=True):
    at: float


class Number(msgspec.Struct, forbid_unknown_fields=True):
    id: int


class ObjectName(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    name: str
    namespace: str = ""


class Desk:
    """Where questions are put."""

    def __init__(self, analyst: Analyst) -> None:
        self._analyst = analyst
        self._threads = ThreadPoolExecutor(_THREADS, "dashboard")
        self._kinds: Mapping[str, tuple[type[Any], Callable[[Picture, Any], Awaitable[Tree]]]] = {
            "match": (Match, self._match),
            "why": (Named, self._why),
            "try": (Attempt, self._attempt),
            "fits": (Nothing, self._fits),
            "past": (At, self._past),
            "device": (Number, self._device),
            "object": (ObjectName, self._object),
        }

    async def ask(self, picture: Picture, kind: str, body: bytes) -> Tree:
        """The answer to a question. Raises Refused and ApiError."""
        known = self._kinds.get(kind)
        if known is None:
            raise Refused(f"there is no question {kind}", code="NotFound", status=404)
        try:
            question = msgspec.json.decode(body, type=known[0])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(str(error), _field(str(error))) from error
        if not picture.ready.is_set():
            raise Refused("the picture is not complete yet", code="NotReady", status=503)
        if picture.asking >= MOST_WAITING:
            raise Refused("too many of your questions wait already", code="TooManyRequests", status=429)
        picture.asking += 1
        try:
            async with picture.turn:
                return await known[1](picture, question)
        finally:
            picture.asking -= 1

    async def think(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do something in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    async def facts(self, picture: Picture) -> Facts:
        """What is known of the cluster: the copies, and what is read only for questions."""
        copies = picture.following.facts()
        read = await asyncio.gather(*(_read(picture.client, type_) for type_ in _ON_DEMAND))
        found = dict(zip(_ON_DEMAND, read, strict=True))
        return Facts(
            {**copies.objects, **{type_: known for type_, known in found.items() if isinstance(known, tuple)}},
            copies.unreadable | {type_ for type_, known in found.items() if known is Forbidden},
            copies.unserved | {type_ for type_, known in found.items() if known is NotFound},
        )

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    # One method a question

    async def _match(self, picture: Picture, asked: Match) -> Tree:
        of_class: tuple[str, ...] = ()
        if asked.class_:
            found: DeviceClass | None = picture.following.get(DeviceClass, "", asked.class_)
            if found is None:
                raise Refused(f"there is no class {asked.class_}", "class", code="NotFound", status=404)
            of_class = _expressions(found)
        views = [*picture.inventory.views.values()]

        def answer() -> Tree:
            candidates = picture.candidates.of(views)
            return self._analyst.match(candidates, asked.expression, of_class, time.monotonic() + MATCH_SECONDS)

        tree = await self.think(answer)
        for part in (tree, *tree.get("failed", ()), *tree.get("errors", ())):
            for name in ("matched", "devices"):
                if name in part:
                    part[name] = ranges(part[name])
        return tree

    async def _why(self, picture: Picture, asked: Named) -> Tree:
        number = picture.tables["pods"].find((asked.namespace, asked.name))
        if picture.following.get(Pod, asked.namespace, asked.name) is None:
            hidden = picture.scopes[Pod] is not Scope.ALL
            text = f"there is no pod {asked.namespace}/{asked.name}" + (" that you may read" if hidden else "")
            raise Refused(text, "name", code="NotFound", status=404)
        facts = await self.facts(picture)
        devices = picture.tables["devices"]

        def answer() -> Tree:
            found = self._analyst.why(facts, asked.namespace, asked.name, time.monotonic() + SECONDS)
            for request in found["requests"]:
                for step in request["steps"]:
                    numbers = (devices.find(id_) for id_ in step["dropped"])
                    step["dropped"] = ranges(one for one in numbers if one is not None)
            return found

        return {"pod": number} | await self.think(answer)

    async def _attempt(self, picture: Picture, asked: Attempt) -> Tree:
        if (asked.pod is None) != (asked.change is None):
            raise Refused("a pod and a change belong together", "pod" if asked.pod is None else "change")
        if asked.pod is None and not asked.manifest.strip() and not asked.drain:
            raise Refused("expected a manifest, or nodes to drain", "manifest")
        if not 1 <= asked.atMost <= _MOST_COPIES:
            raise Refused(f"expected a number from 1 to {_MOST_COPIES}", "atMost")
        facts = await self.facts(picture)
        return await self.think(self._analyst.attempt, facts, msgspec.to_builtins(asked), time.monotonic() + SECONDS)

    async def _fits(self, picture: Picture, asked: Nothing) -> Tree:
        facts = await self.facts(picture)
        found = await self.think(self._analyst.fits, facts, time.monotonic() + SECONDS)
        return found | {"hidden": picture.scopes[ResourceClaim] is not Scope.ALL}

    async def _past(self, picture: Picture, asked: At) -> Tree:
        return await past_tree(picture.history, picture.tables, picture.strings, asked.at)

    async def _device(self, picture: Picture, asked: Number) -> Tree:
        found = next((view, name) for view, name in _places(picture, asked.id))
        tree = device_tree(picture.inventory, asked.id, *found)
        classes = picture.following.all(DeviceClass)
        candidates = [one for one in picture.candidates.of([found[0]]) if one.number == asked.id]

        def matching() -> list[str]:
            ends = time.monotonic() + MATCH_SECONDS
            return [
                one.metadata.name
                for one in classes
                if self._analyst.match(candidates, "", _expressions(one), ends).get("count")
            ]

        return tree | {"classes": await self.think(matching)}

    async def _object(self, picture: Picture, asked: ObjectName) -> Tree:
        type_ = next((one for one in (*FOLLOWED, *_ON_DEMAND, *_OWNERS) if one.__name__ == asked.kind), None)
        if type_ is None:
            raise Refused(f"objects of kind {asked.kind} are not shown", "kind", code="NotFound", status=404)
        found = await picture.client.get(type_, asked.name, asked.namespace if BY_TYPE[type_].namespaced else "")
        tree: Tree = msgspec.to_builtins(found)
        tree["metadata"].pop("managedFields", None)
        return {"object": tree}


class Candidates:
    """Devices as expressions are asked about them, kept for as long as their pools stay as they are."""

    def __init__(self, find: Callable[[DeviceId], int | None]) -> None:
        self._find = find
        self._kept: dict[PoolName, tuple[PoolView, list[Candidate]]] = {}

    def of(self, views: Iterable[PoolView]) -> list[Candidate]:
        """The devices of pools that can be used or not; to be called in a thread."""
        found: list[Candidate] = []
        for view in views:
            kept = self._kept.get(view.name)
            if kept is None or kept[0] is not view:
                kept = self._kept[view.name] = view, self._read(view)
            found += kept[1]
        return found

    def _read(self, view: PoolView) -> list[Candidate]:
        ids = ((DeviceId(*view.name, name), place.device) for name, place in view.places.items())
        return [Candidate(number, id_, device) for id_, device in ids if (number := self._find(id_)) is not None]


def _expressions(class_: DeviceClass) -> tuple[str, ...]:
    return tuple(one.cel.expression for one in class_.spec.selectors if one.cel is not None)


def _places(picture: Picture, number: int) -> Iterable[tuple[PoolView, str]]:
    row = picture.tables["devices"].rows.get(number)
    pool = picture.tables["pools"].rows.get(row[0]) if row is not None else None
    driver = picture.tables["drivers"].rows.get(pool[0]) if pool is not None else None
    if row is not None and pool is not None and driver is not None:
        view = picture.inventory.views.get(PoolName(driver[0], pool[1]))
        if view is not None:
            yield view, picture.strings.all[row[1]]
    raise Refused(f"there is no device {number}", "id", code="NotFound", status=404)


async def _read(client: Client, type_: type[Any]) -> tuple[Any, ...] | type[Exception]:
    try:
        return (await client.list(type_)).items
    except (Forbidden, NotFound) as error:
        return type(error)


def _field(text: str) -> str:
    """The part that msgspec blames: it ends its sentences with `$.name`."""
    return text.rpartition("`$.")[2].rstrip("`") if "`$." in text else ""
