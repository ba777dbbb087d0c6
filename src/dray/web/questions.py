"""Questions of a page: validated here, answered by the analyst in the worker process.

One question per user is answered at a time, few may wait, and each has a time limit, so that one user's questions
cannot overload the server. Details of a device and the map at an earlier time are answered here from the picture.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dray.api.allocations import DeviceId
from dray.api.availability import PoolUse, PublishedPool
from dray.api.pools import PoolName
from dray.api.resources import BY_TYPE
from dray.api.types.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from dray.api.types.batch import CronJob, Job
from dray.api.types.core import Event, Pod
from dray.api.types.resource import Device, DeviceAttribute, DeviceClass, ResourceClaim
from dray.api.wire import Tree
from dray.web.access import QuestionError
from dray.web.analyst import ClusterAnalyst
from dray.web.answers import Answers
from dray.web.history import ABSENT, DashboardHistory, Was
from dray.web.inventory import CLAIMS, STATE, DashboardInventory
from dray.web.reading import PLACEMENT, events_of, facts
from dray.web.rights import FOLLOWED, VisibleScope
from dray.web.tables import RowTable, Strings, ranges

if TYPE_CHECKING:
    from dray.web.picture import DashboardPicture


_TURN_SECONDS = 0.005


async def past_tree(history: DashboardHistory, tables: Mapping[str, RowTable], strings: Strings, at: float) -> Tree:
    """Return the differences between the map now and at an earlier time.

    Raises QuestionError if that is too long ago.
    """
    if not history.since <= at <= time.time():
        raise QuestionError(f"expected a time from {history.since:.0f} to now", "at")
    second = int(at)
    found: dict[int, Was] = {}
    ends = time.perf_counter() + _TURN_SECONDS
    for _ in history.back_to(second, found):
        if time.perf_counter() > ends:
            await asyncio.sleep(0)
            ends = time.perf_counter() + _TURN_SECONDS
    return _Then(history, tables, strings, found).tree(second)


class _Then:
    """The device map at an earlier time, compared with now."""

    def __init__(
        self, history: DashboardHistory, tables: Mapping[str, RowTable], strings: Strings, found: Mapping[int, Was]
    ) -> None:
        self._history = history
        self._devices, self._claims = tables["devices"].rows, tables["claims"].rows
        self._strings = strings
        self._found = found

    def tree(self, at: int) -> Tree:
        """Return the devices that differ from now, in wire form."""
        now = self._devices
        different = [
            (number, was)
            for number, was in self._found.items()
            if was.state != ABSENT and number in now and was != (now[number][STATE], now[number][CLAIMS])
        ]
        return {
            "at": at,
            "from": self._history.since,
            "devices": {
                "id": [number for number, _ in different],
                "state": [was.state for _, was in different],
                "claims": [self._names(was) for _, was in different],
            },
            "absent": ranges(n for n, was in self._found.items() if was.state == ABSENT and n in now),
            "gone": [self._gone(n, was) for n, was in self._found.items() if was.state != ABSENT and n not in now],
        }

    def _names(self, was: Was) -> list[str]:
        return [self._name(number) for number in was.claims]

    def _name(self, claim: int) -> str:
        """Return namespace and name of a claim, also of a deleted one.

        Given as namespace/name; empty if the claim is unknown. `claim` is its row number.
        """
        row = self._claims.get(claim)
        return self._history.claim_name(claim) if row is None else f"{self._strings.all[row[0]]}/{row[1]}"

    def _gone(self, number: int, was: Was) -> Tree:
        """Return a device that no longer exists, in wire form."""
        pool, name = self._history.device_name(number)
        return {"id": number, "pool": pool, "name": name, "state": was.state, "claims": self._names(was)}


_KINDS = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")


def device_tree(inventory: DashboardInventory, number: int, view: PublishedPool, name: str) -> Tree:
    """Return the details of a device in wire form, except the classes that select it."""
    id_, use = DeviceId(*view.name, name), inventory.use_of(view)
    found = view.devices.get(name)
    tree: Tree = {"id": number, "driver": id_.driver, "pool": id_.pool, "name": name}
    if found is None:  # held by a claim, but in no slice
        empty: Tree = {"attributes": {}, "capacity": {}, "taints": [], "counters": []}
        return tree | {"node": "", "slice": "", "generation": 0, "conditions": _conditions(use, id_)} | empty
    device, one = found.device, found.slice
    return tree | {
        "node": found.node,
        "slice": one.metadata.name,
        "generation": one.spec.pool.generation,
        "attributes": {key: _attribute(value) for key, value in device.attributes.items()},
        "capacity": _capacity(use, device),
        "taints": inventory.taints(id_, device),
        "counters": _counters(use, device),
        "conditions": _conditions(use, id_),
    }


def _attribute(attribute: DeviceAttribute) -> Tree:
    """Return type and value of an attribute."""
    for kind in _KINDS:
        value = getattr(attribute, kind)
        if value is not None and value != ():
            return {"type": kind, "value": value}
    return {"type": "", "value": None}


def _capacity(use: PoolUse, device: Device) -> Tree:
    """Return the capacities of a device and how much is consumed."""
    used = use.consumed(device.name)
    return {
        name: {"value": capacity.value, "used": str(used[name]) if name in used else None}
        for name, capacity in device.capacity.items()
    }


def _counters(use: PoolUse, device: Device) -> list[Tree]:
    """Return the counters that a partition consumes, and what is left of them."""
    return [
        {
            "set": drawn.counterSet,
            "counters": {
                name: {"needed": counter.value, "left": str(use.left.left(drawn.counterSet, name))}
                for name, counter in drawn.counters.items()
            },
        }
        for drawn in device.consumesCounters
    ]


def _conditions(use: PoolUse, id_: DeviceId) -> list[Tree]:
    """Return the conditions of a device in the status of its claims."""
    return [
        {"type": said.type, "status": said.status, "reason": said.reason, "message": said.message}
        for claim in use.holders.claims(id_)
        for one in claim.status.devices
        if (one.driver, one.pool, one.device) == id_
        for said in one.conditions or ()
    ]


T = TypeVar("T")

SECONDS = 10.0
MATCH_SECONDS = 3.0
MOST_WAITING = 4
_MORE_SHOWN: tuple[type[Any], ...] = (*(one.type_ for one in PLACEMENT), Event)
_OWNERS: tuple[type[Any], ...] = (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob)
_MOST_COPIES = 100_000


class DeviceMatch(msgspec.Struct, forbid_unknown_fields=True):
    """Question: which devices of a class does an expression select?"""

    expression: str = ""
    class_: str = msgspec.field(default="", name="class")


class Named(msgspec.Struct, forbid_unknown_fields=True):
    """Name of a pod."""

    name: str
    namespace: str = "default"


class MoreNodes(msgspec.Struct, forbid_unknown_fields=True):
    """Nodes to add in a what-if question."""

    like: str
    count: int = 1


class TrialQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """Question: what would happen after a hypothetical change?"""

    manifest: str = ""
    namespace: str = "default"
    howMany: bool = False
    atMost: int = 1000
    drain: list[str] = []
    addNodes: MoreNodes | None = None
    pod: Named | None = None
    change: Tree | None = None


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A question without parameters."""


class At(msgspec.Struct, forbid_unknown_fields=True):
    """A time in seconds since the epoch."""

    at: float


class Number(msgspec.Struct, forbid_unknown_fields=True):
    """Row number of a device."""

    id: int


class ObjectName(msgspec.Struct, forbid_unknown_fields=True):
    """Kind, name and namespace of an object."""

    kind: str
    name: str
    namespace: str = ""


class Desk:
    """Checks and answers the questions that a dashboard page sends."""

    def __init__(self, analyst: ClusterAnalyst) -> None:
        self._analyst = analyst
        self._kinds: Mapping[str, tuple[type[Any], Callable[[DashboardPicture, Any], Awaitable[Tree]]]] = {
            "match": (DeviceMatch, self._match),
            "classes": (Nothing, self._classes),
            "why": (Named, self._why),
            "try": (TrialQuestion, self._attempt),
            "fits": (Nothing, self._fits),
            "past": (At, self._past),
            "device": (Number, self._device),
            "object": (ObjectName, self._object),
        }

    async def ask(self, picture: DashboardPicture, kind: str, body: bytes) -> Tree:
        """Return the answer to a question.

        `kind` is the name of the question. Raises QuestionError if the question is unknown or invalid, the picture is
        not complete yet (503), or too many questions wait (429). Errors of the API are raised too.
        """
        known = self._kinds.get(kind)
        if known is None:
            raise QuestionError(f"there is no question {kind}", code="NotFound", status=404)
        try:
            question = msgspec.json.decode(body, type=known[0])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise QuestionError(str(error), _field(str(error))) from error
        if not picture.ready.is_set():
            raise QuestionError("the picture is not complete yet", code="NotReady", status=503)
        if picture.asking >= MOST_WAITING:
            raise QuestionError("too many of your questions wait already", code="TooManyRequests", status=429)
        picture.asking += 1
        try:
            async with picture.turn:
                return await known[1](picture, question)
        finally:
            picture.asking -= 1

    # One method per question

    async def _match(self, picture: DashboardPicture, asked: DeviceMatch) -> Tree:
        """Return the devices of a class that an expression selects, in wire form.

        Raises QuestionError with status 404 if the class is named and does not exist.
        """
        if asked.class_ and picture.following.get(DeviceClass, "", asked.class_) is None:
            raise QuestionError(f"there is no class {asked.class_}", "class", code="NotFound", status=404)
        return await self._analyst.ask(
            await facts(picture), MATCH_SECONDS, Answers.match, asked.expression, asked.class_
        )

    async def _classes(self, picture: DashboardPicture, asked: Nothing) -> Tree:
        """Return the devices that each device class selects, in wire form."""
        return await self._analyst.ask(await facts(picture), MATCH_SECONDS, Answers.members)

    async def _why(self, picture: DashboardPicture, asked: Named) -> Tree:
        """Return the explanation why a pod waits, in wire form. Raises QuestionError for an unknown pod."""
        if picture.following.get(Pod, asked.namespace, asked.name) is None:
            hidden = picture.scopes[Pod] is not VisibleScope.ALL
            text = f"there is no pod {asked.namespace}/{asked.name}" + (" that you may read" if hidden else "")
            raise QuestionError(text, "name", code="NotFound", status=404)
        number = picture.tables["pods"].find((asked.namespace, asked.name))
        known = await facts(picture, (*PLACEMENT, events_of(asked.name)))
        return {"pod": number} | await self._analyst.ask(known, SECONDS, Answers.why, asked.namespace, asked.name)

    async def _attempt(self, picture: DashboardPicture, asked: TrialQuestion) -> Tree:
        """Return what would happen after a hypothetical change, in wire form.

        Raises QuestionError if pod and change are not given together, if there is neither manifest nor drain, or if
        `atMost` is out of range.
        """
        if (asked.pod is None) != (asked.change is None):
            raise QuestionError("a pod and a change belong together", "pod" if asked.pod is None else "change")
        if asked.pod is None and not asked.manifest.strip() and not asked.drain:
            raise QuestionError("expected a manifest, or nodes to drain", "manifest")
        if not 1 <= asked.atMost <= _MOST_COPIES:
            raise QuestionError(f"expected a number from 1 to {_MOST_COPIES}", "atMost")
        return await self._analyst.ask(
            await facts(picture, PLACEMENT), SECONDS, Answers.attempt, msgspec.to_builtins(asked)
        )

    async def _fits(self, picture: DashboardPicture, asked: Nothing) -> Tree:
        """Return how many more devices of each class can be allocated, in wire form."""
        found = await self._analyst.ask(await facts(picture), SECONDS, Answers.fits)
        return found | {"hidden": picture.scopes[ResourceClaim] is not VisibleScope.ALL}

    async def _past(self, picture: DashboardPicture, asked: At) -> Tree:
        """Return how the device map differed at an earlier time, in wire form."""
        return await past_tree(picture.history, picture.tables, picture.strings, asked.at)

    async def _device(self, picture: DashboardPicture, asked: Number) -> Tree:
        """Return attributes, capacity, taints and classes of a device, in wire form."""
        tree = device_tree(picture.inventory, asked.id, *_place(picture, asked.id))
        classes = await self._analyst.ask(await facts(picture), MATCH_SECONDS, Answers.classes, asked.id)
        return tree | {"classes": classes}

    async def _object(self, picture: DashboardPicture, asked: ObjectName) -> Tree:
        """Return an object, without managedFields.

        Raises QuestionError with status 404 if objects of this kind are not shown, and the client's error if the
        object cannot be read.
        """
        type_ = next((one for one in (*FOLLOWED, *_MORE_SHOWN, *_OWNERS) if one.__name__ == asked.kind), None)
        if type_ is None:
            raise QuestionError(f"objects of kind {asked.kind} are not shown", "kind", code="NotFound", status=404)
        found = await picture.client.get(type_, asked.name, asked.namespace if BY_TYPE[type_].namespaced else "")
        tree: Tree = msgspec.to_builtins(found)
        tree["metadata"].pop("managedFields", None)
        return {"object": tree}


def _place(picture: DashboardPicture, number: int) -> tuple[PublishedPool, str]:
    """Return the pool of a device and its name there. Raises QuestionError if it does not exist.

    `number` is the row number of the device.
    """
    row = picture.tables["devices"].rows.get(number)
    pool = picture.tables["pools"].rows.get(row[0]) if row is not None else None
    driver = picture.tables["drivers"].rows.get(pool[0]) if pool is not None else None
    view = (
        picture.inventory.views.get(PoolName(driver[0], pool[1])) if driver is not None and pool is not None else None
    )
    if row is None or view is None:
        raise QuestionError(f"there is no device {number}", "id", code="NotFound", status=404)
    return view, picture.strings.all[row[1]]


def _field(text: str) -> str:
    """Return the field that a msgspec error names (it ends with `$.name`), or ""."""
    return text.rpartition("`$.")[2].rstrip("`") if "`$." in text else ""
