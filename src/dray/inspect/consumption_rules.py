"""Lint rules about consumption of devices: counters, shares and extended resources.

A slice is checked together with the other slices of its pool. A claim is checked by asking whether any node could
serve it if nothing were in use. Left out: errors that the API server reports, and selectors (`device_rules`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dray.api.extended_resources import IMPLICIT_PREFIX, ExtendedResources
from dray.api.pools import PoolName, by_pool, newest, problem_of
from dray.api.quantity import Quantity
from dray.api.reasons.devices import PoolState
from dray.api.reasons.wording import pool_problem
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.inspect.findings import Finding, Level
from dray.inspect.hardware import alike
from dray.inspect.placement import Allowance, judge_devices
from dray.inspect.shortage import ClaimShortage
from dray.inspect.snapshot import Snapshot

_SECONDS = 2.0  # time limit for checking whether a claim can be served at all


# Slices


def slice_findings(place: str, slice_: ResourceSlice, known: Snapshot) -> Iterator[Finding]:
    """Yield findings for a slice: an unusable pool, or devices that can never be allocated.

    `known` has all objects to check against. `place` says where the document is, for the findings.
    """
    subject = f"ResourceSlice {slice_.metadata.name}"
    pool = newest(by_pool(known.all(ResourceSlice)).get(PoolName(slice_.spec.driver, slice_.spec.pool.name), [slice_]))
    problem = problem_of(pool)
    if problem is not None:
        level: Level = "error" if problem.state is PoolState.INVALID else "warning"
        text = f"{subject}: nobody gets devices of pool {slice_.spec.pool.name}: {pool_problem(problem)}"
        yield Finding(level, place, "spec", text)
    totals = {
        (set_.name, name): counter.value
        for one in pool
        for set_ in one.spec.sharedCounters
        for name, counter in set_.counters.items()
    }
    yield from _too_large(place, subject, slice_, totals)


def _too_large(
    place: str, subject: str, slice_: ResourceSlice, totals: Mapping[tuple[str, str], str]
) -> Iterator[Finding]:
    """Yield an error for each device that draws more from a counter than the counter has.

    `totals` has the value of each counter by (counter set, counter).
    """
    for number, device in enumerate(slice_.spec.devices):
        for at, drawn in enumerate(device.consumesCounters):
            for name, counter in drawn.counters.items():
                total = totals.get((drawn.counterSet, name))
                if total is not None and Quantity.parse(counter.value) > Quantity.parse(total):
                    field = f"spec.devices[{number}].consumesCounters[{at}].counters[{name}].value"
                    text = (
                        f"{subject}: device {device.name} can never be allocated: it draws {counter.value} of {name}, "
                        f"and counter set {drawn.counterSet} has {total}"
                    )
                    yield Finding("error", place, field, text)


# Claims


def never_served(place: str, root: str, claim: ResourceClaim, known: Snapshot) -> Iterator[Finding]:
    """Yield a warning if no node could serve the claim even if nothing were in use.

    Yields nothing without nodes or slices, if a device class is unknown, or if a search takes too long. `root` is the
    path of the devices field in the document.
    """
    requests = claim.spec.devices.requests or ()
    named = {one.deviceClassName for r in requests for one in (*r.firstAvailable, *((r.exactly,) if r.exactly else ()))}
    if not known.all(Node) or not known.all(ResourceSlice) or not named <= known.classes.keys():
        return
    unused = replace(known, objects={**known.objects, ResourceClaim: ()})
    allowance = Allowance.within(_SECONDS)
    verdicts = judge_devices(unused, [claim], allowance.nodes)
    if not verdicts or any(verdict.fits or verdict.is_late for verdict in verdicts):
        return
    cause = ClaimShortage(unused, [claim], verdicts, allowance).cause()
    text = f"no node could serve it even if nothing were in use: {cause.text}"
    yield Finding("warning", place, f"{root}.requests", text)


# Extended resources


def name_findings(place: str, class_: DeviceClass, known: Snapshot) -> Iterator[Finding]:
    """Yield a warning if other classes serve the same extended resource name.

    Yields nothing for a class without an extended resource name.
    """
    name = class_.spec.extendedResourceName
    rivals = [one for one in known.all(DeviceClass) if name and one.spec.extendedResourceName == name]
    if len(rivals) > 1:
        others = ", ".join(sorted(one.metadata.name for one in rivals if one.metadata.name != class_.metadata.name))
        text = (
            f"DeviceClass {class_.metadata.name}: {name} is served by {others} as well; the newest class wins, "
            "then the first by name"
        )
        yield Finding("warning", place, "spec.extendedResourceName", text)


def extended_findings(place: str, root: str, pod: Pod, known: Snapshot) -> Iterator[Finding]:
    """Yield a warning for each extended resource of the pod that neither devices nor any node provides.

    Only names with a slash are checked. `root` is the path of the pod spec in the document.
    """
    serving = ExtendedResources(known.all(DeviceClass))
    offered = {name for node in known.all(Node) for name in node.status.allocatable}
    lists = (("containers", pod.spec.containers), ("initContainers", pod.spec.initContainers))
    for field, containers in lists:
        for number, container in enumerate(containers):
            asked = {**container.resources.limits, **container.resources.requests}
            for name in asked:
                if "/" in name and name not in offered and serving.class_of(name) is None:
                    where = f"{root}.{field}[{number}].resources"
                    text = f"{pod.kind} {pod.metadata.name}: nothing serves {name}{_meant(name, known, offered)}"
                    yield Finding("warning", place, where, text)


def _meant(name: str, known: Snapshot, offered: set[str]) -> str:
    """Return a "did you mean" hint for an extended resource name; empty if no known name is similar."""
    names = {one.spec.extendedResourceName or "" for one in known.all(DeviceClass)} - {""}
    implicit = {f"{IMPLICIT_PREFIX}{one.metadata.name}" for one in known.all(DeviceClass)}
    meant = alike(name, sorted(names | implicit | {one for one in offered if "/" in one}))
    return f", did you mean {meant}?" if meant else ""
