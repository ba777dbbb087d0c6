"""Answers to a page's questions: CEL, explain, capacity and what-if, from a copy of the objects.

Runs in the worker process (`analyst` communicates with it) and changes nothing. `dray.questions` finds the answers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dray.allocator import steps_in
from dray.allocator.budget import StepMeter
from dray.api.allocations import DeviceId
from dray.api.gates import FeatureGates
from dray.api.manifests import ManifestError
from dray.api.pools import PoolName
from dray.api.reasons import wording
from dray.api.reasons.devices import DeviceStep, StepCode
from dray.api.reasons.nodes import NodeReason
from dray.api.reasons.suggestions import SuggestedChange, Suggestion
from dray.api.types.core import Pod
from dray.api.types.resource import Device
from dray.api.wire import Tree
from dray.cel import DeviceView, Interrupted
from dray.inspect.asking import expressions
from dray.inspect.changes import applied
from dray.inspect.explain import NotThere, explain_pod
from dray.inspect.explanation import WaitExplanation
from dray.inspect.layout import notes_of
from dray.inspect.placement import Allowance
from dray.inspect.snapshot import Snapshot
from dray.questions.manifests import objects_in
from dray.questions.room import ClassRoom, room_of
from dray.questions.selecting import Failure, select
from dray.questions.steps import CONSTRAINT, FilterStep, RequestSteps, pending_claims, steps_of
from dray.questions.supposing import AddNodes, DrainNode, SupposedChange, answer_tree, became_of, cluster_of, what_if
from dray.sim.changes import ChangeError
from dray.sim.demands import DemandError, demand_of
from dray.verdicts.devices import progress
from dray.web.access import QuestionError, WaitingCause
from dray.web.tables import ranges


def failure_tree(one: Failure) -> Tree:
    """Return the devices that fail one part of an expression, in wire form."""
    part = one.part
    return {
        "part": part.text,
        "from": part.start,
        "to": part.end,
        "count": len(one.devices),
        "devices": ranges(one.devices),
    }


def suggested(found: WaitExplanation) -> str:
    """Return the text of the best suggestion, or ""."""
    return found.help[0].text if found.help else ""


def change_tree(one: Suggestion) -> Tree:
    """Return a suggested change that was verified to help: its text and the API changes."""
    tree: Tree = msgspec.to_builtins(one)
    return {"changes": []} | tree | {"text": one.text}


def nodes_tree(found: WaitExplanation) -> Tree:
    """Return the reasons of nodes, counted, and the node that came closest.

    Details of a single node are left out of the reasons.
    """
    counted: Counter[NodeReason] = Counter()
    for verdict in found.nodes:
        counted.update(_plain(reason) for reason in verdict.reasons)
    reasons = [
        {
            "code": reason.code.value,
            "rule": reason.rule.value,
            "subject": reason.subject,
            "nodes": count,
            "text": wording.node_reason(reason),
        }
        for reason, count in counted.most_common()
    ]
    short = [verdict for verdict in found.nodes if verdict.devices is not None]
    closest = max(short, key=lambda verdict: progress(verdict.devices), default=None)  # type: ignore[arg-type]
    nearest = None
    if closest is not None and closest.devices is not None:
        nearest = {"node": closest.node, "text": wording.line(closest.devices)}
    return {"total": len(found.nodes), "reasons": reasons, "nearest": nearest}


def _plain(reason: NodeReason) -> NodeReason:
    """Return a reason without details of a single node, so that equal reasons can be counted."""
    return NodeReason(reason.code, reason.subject, reason.value, problem=reason.problem)


def step_tree(step: FilterStep, dropped: list[list[int]]) -> Tree:
    """Return one filter step of a request in wire form. A constraint is named by its attribute if it has one.

    `dropped` are the ranges of row numbers that the step excludes.
    """
    tree: Tree = {"code": step.code, "text": _condition(step), "left": step.left, "dropped": dropped}
    if step.subject:
        tree["subject"] = step.subject
    return tree if step.number is None else tree | {"number": step.number}


def _condition(step: FilterStep) -> str:
    """Return the text of a filter step's condition."""
    if step.code == CONSTRAINT and not step.subject:
        return CONSTRAINT
    code = StepCode.MATCHING if step.code == CONSTRAINT else StepCode(step.code)
    words = wording.condition(DeviceStep(code, step.left, step.subject, step.number))
    return f"{words}: {step.text}" if step.text else words


def room_tree(room: ClassRoom) -> Tree:
    """Return how many more devices of a class can be allocated."""
    return {
        "class": room.name,
        "total": room.total,
        "free": room.free,
        "shared": room.shared,
        "node": {"name": room.node, "count": room.best},
        "cluster": room.together,
        "spread": room.spread,
        "exact": room.exact,
    }


Told = tuple[type[Any], tuple[str, str], bytes | None]
"""An object: type, (namespace, name), and its JSON or None if it was deleted."""
Hidden = tuple[frozenset[type[Any]], frozenset[type[Any]], frozenset[type[Any]]]
"""Types that a `Snapshot` has as unreadable, unserved and partial."""
_FOR_CAUSE = 0.7  # share of the time for the cause; the rest is for the filter steps
_NAMED = 50  # maximum number of listed holders


class PoolAnswer:
    """Devices of a pool as CEL expressions see them, with their row numbers."""

    def __init__(self, driver: str, numbers: dict[str, int], devices: bytes) -> None:
        self._driver = driver
        self.numbers = numbers
        self._devices = devices
        self._seen: list[tuple[int, DeviceView]] | None = None

    def seen(self) -> list[tuple[int, DeviceView]]:
        """Return the devices with their row numbers, decoded on first use.

        Devices without a row number are left out.
        """
        if self._seen is None:
            devices = msgspec.json.decode(self._devices, type=list[Device])
            self._seen = [(self.numbers[one.name], self._view(one)) for one in devices if one.name in self.numbers]
        return self._seen

    def _view(self, one: Device) -> DeviceView:
        return DeviceView(self._driver, one.attributes, one.capacity, one.allowMultipleAllocations or False)


class Answers:
    """Copy of the objects that one identity may read, and the answers from it.

    Questions take a time limit in seconds.
    """

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self._objects: dict[type[Any], dict[tuple[str, str], Any]] = {}
        self._hidden: Hidden = (frozenset(), frozenset(), frozenset())
        self._pools: dict[PoolName, PoolAnswer] = {}
        self._known: Snapshot | None = None

    # The copy

    def take_over(
        self,
        objects: Iterable[Told],
        pools: Mapping[PoolName, PoolAnswer | None],
        hidden: Hidden,
    ) -> None:
        """Apply changed objects, pools and hidden types to the copy.

        A deleted object has the content None, a pool that is gone the value None.
        """
        for type_, key, content in objects:
            kept = self._objects.setdefault(type_, {})
            if content is None:
                kept.pop(key, None)
            else:
                kept[key] = msgspec.json.decode(content, type=type_)
        for name, pool in pools.items():
            if pool is None:
                self._pools.pop(name, None)
            else:
                self._pools[name] = pool
        self._hidden = hidden
        self._known = None

    @property
    def _snapshot(self) -> Snapshot:
        """Snapshot of the copied objects, cached until the next change."""
        if self._known is None:
            objects = {type_: tuple(kept.values()) for type_, kept in self._objects.items()}
            self._known = Snapshot(objects, *self._hidden)
        return self._known

    def _numbers(self, devices: Iterable[DeviceId]) -> list[list[int]]:
        """Return the row numbers of devices as ranges `[first, count]`. Devices without a row are left out."""
        found = (
            pool.numbers.get(device.device)
            for device in devices
            if (pool := self._pools.get(PoolName(device.driver, device.pool))) is not None
        )
        return ranges(number for number in found if number is not None)

    # Questions

    def match(self, seconds: float, expression: str, of_class: str) -> Tree:
        """Return the devices that an expression selects, and those that fail each part of it."""
        devices = [one for pool in self._pools.values() for one in pool.seen()]
        found = select(devices, expression, self._expressions(of_class), StepMeter(steps_in(seconds)))
        if found.problem:
            return {"problem": found.problem}
        return {
            "problem": "",
            "matched": ranges(found.matched),
            "count": len(found.matched),
            "of": len(devices),
            "failed": [failure_tree(one) for one in found.failures if not one.error],
            "errors": [failure_tree(one) | {"text": one.error} for one in found.failures if one.error],
            "maxCost": found.max_cost,
            "complete": found.is_complete,
        }

    def classes(self, seconds: float, number: int) -> list[str]:
        """Return the names of the classes that select a device.

        `number` is the row number of the device, `seconds` the time for each class. Sorted by name.
        """
        devices = [one for pool in self._pools.values() if number in pool.numbers.values() for one in pool.seen()]
        meant = [one for one in devices if one[0] == number]
        names = sorted(self._snapshot.classes)
        return [
            name for name in names if select(meant, "", self._expressions(name), StepMeter(steps_in(seconds))).matched
        ]

    def members(self, seconds: float) -> Tree:
        """Return the devices of each class. If time runs out, remaining classes are omitted and `complete` is False."""
        devices = [one for pool in self._pools.values() for one in pool.seen()]
        meter = StepMeter(steps_in(seconds))
        found: list[Tree] = []
        for name in sorted(self._snapshot.classes):
            selected = select(devices, "", self._expressions(name), meter)
            if not selected.is_complete:
                return {"classes": found, "complete": False}
            found.append({"class": name, "devices": ranges(selected.matched)})
        return {"classes": found, "complete": True}

    def _expressions(self, class_: str) -> tuple[str, ...]:
        """Return the CEL selectors of a device class; empty for an unknown class."""
        return expressions(self._snapshot.classes[class_].spec.selectors) if class_ in self._snapshot.classes else ()

    def why(self, seconds: float, namespace: str, name: str) -> Tree:
        """Return why a pod waits, searching for at most `seconds`. Raises QuestionError if the pod does not exist.

        The answer has the cause, filter steps of its requests, reasons of nodes, holders of devices and a suggested
        change.
        """
        snapshot = self._snapshot
        found = self._explained(namespace, name, seconds * _FOR_CAUSE)
        pod = snapshot.get(Pod, name, namespace)
        assert pod is not None  # explained above, so the pod exists
        claims = pending_claims(snapshot, pod) if found.waits else []
        try:
            steps = steps_of(snapshot, claims, StepMeter(steps_in(seconds)))
        except Interrupted:
            steps = []
        return {
            "waits": found.waits,
            "cause": {
                "code": found.cause.code,
                "text": found.cause.text,
                "help": suggested(found),
            },
            "requests": [self._request(one) for one in steps],
            "nodes": nodes_tree(found),
            "holders": [msgspec.to_builtins(one) for one in found.holders[:_NAMED]],
            "change": change_tree(found.help[0]) if found.help else None,
            "notes": notes_of(found),
            "hidden": snapshot.hides_use,
        }

    def _request(self, one: RequestSteps) -> Tree:
        """Return the filter steps of one request in wire form."""
        return {
            "claim": one.claim,
            "request": one.request,
            "alternative": one.alternative,
            "needed": one.needed,
            "all": one.every,
            "steps": [step_tree(step, self._numbers(step.dropped)) for step in one.steps],
        }

    def causes(self, seconds: float, pods: Sequence[tuple[str, str]]) -> list[WaitingCause | None]:
        """Return the cause of each waiting pod; None for pods that do not wait or that time did not suffice for.

        The pods are given as (namespace, name). `seconds` is the time for all of them.
        """
        deadline = time.monotonic() + seconds
        return [self._cause(namespace, name, seconds, deadline) for namespace, name in pods]

    def _cause(self, namespace: str, name: str, seconds: float, deadline: float) -> WaitingCause | None:
        """Return the cause of a waiting pod; None if the pod does not wait or the deadline has passed.

        `seconds` is the time that the explanation may take, `deadline` a time of time.monotonic(). None also if the
        pod cannot be explained.
        """
        if time.monotonic() > deadline:
            return None  # no time left
        try:
            found = self._explained(namespace, name, seconds, helps=False)
        except QuestionError:
            return None
        return WaitingCause(found.cause.code, found.cause.text) if found.waits else None

    def attempt(self, seconds: float, question: Tree) -> Tree:
        """Return what would happen after a hypothetical change."""
        after_change = question["pod"] is not None
        found = (
            self._after_change(question["pod"], question["change"]) if after_change else self._trial(seconds, question)
        )
        return found | {"hidden": self._snapshot.hides_use}

    def _trial(self, seconds: float, question: Tree) -> Tree:
        """Return the outcome for a manifest, or for the pods of drained nodes. Raises QuestionError."""
        deadline = time.monotonic() + seconds
        more = question.get("addNodes") or {}
        supposed: list[SupposedChange] = [AddNodes(**more)] if more else []
        supposed += [DrainNode(name) for name in question["drain"]]
        try:
            objects = objects_in(question["manifest"], self._gates)
            demand = demand_of(objects, question["namespace"]) if objects else None
            cluster = cluster_of(self._snapshot, self._gates)
            at_most = question["atMost"] if question["howMany"] and demand is not None else 0
            found = what_if(cluster, demand, supposed, at_most=at_most, is_late=lambda: time.monotonic() > deadline)
            return answer_tree(found)
        except (ManifestError, DemandError) as error:
            raise QuestionError(str(error), "manifest") from error
        except ChangeError as error:
            raise QuestionError(str(error), "addNodes" if more else "drain") from error

    def _after_change(self, pod: Tree, change: Tree) -> Tree:
        """Return the outcome for a pod after a suggested change.

        Raises QuestionError if the change cannot be applied, or with status 404 if the pod does not exist.
        """
        try:
            changes = msgspec.convert(change.get("changes", ()), tuple[SuggestedChange, ...])
            after = applied(self._snapshot, changes)
        # the change comes from the client and may have any form
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise QuestionError(f"expected the change of an answer to why: {error}", "change") from error
        cluster = cluster_of(after, self._gates)
        found = cluster.get(Pod, pod["name"], pod["namespace"])
        if found is None:
            raise QuestionError(f"there is no pod {pod['namespace']}/{pod['name']}", "pod", code="NotFound", status=404)
        return answer_tree(became_of(cluster, found))

    def fits(self, seconds: float) -> Tree:
        """Return how many more devices of each class can be allocated. Raises QuestionError if time runs out."""
        try:
            rooms = room_of(self._snapshot, StepMeter(steps_in(seconds)))
        except Interrupted as error:
            raise QuestionError(
                "there was not enough time to look at all classes", code="TimedOut", status=504
            ) from error
        return {"classes": [room_tree(room) for room in rooms]}

    # Parts of answers

    def _explained(self, namespace: str, name: str, seconds: float, *, helps: bool = True) -> WaitExplanation:
        """Return the explanation of a pod. Raises QuestionError if it does not exist."""
        try:
            return explain_pod(self._snapshot, namespace, name, Allowance.within(seconds), helps=helps)
        except NotThere as error:
            raise QuestionError(str(error), "name", code="NotFound", status=404) from error
