"""The step at which each device of the cluster is excluded, for every request of a waiting pod.

The steps are those of the allocator in the same order, applied to the whole cluster instead of one node: published,
class, selectors, tolerated, free, counters, constraint. Left out: why too few devices remain (`shortage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dray.allocator.budget import StepMeter
from dray.api.allocations import DeviceId
from dray.api.claim_access import Knowledge, PodClaims, claims_of
from dray.api.podclaims import Sharing
from dray.api.pools import PoolName
from dray.api.reasons.devices import StepCode
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.inspect.asking import Ask, DeviceCensus, asks_of
from dray.inspect.expressions import conjuncts, in_words
from dray.inspect.hardware import Hardware, Published
from dray.inspect.snapshot import Snapshot

CONSTRAINT = "constraint"  # the last step; the others have the codes of `StepCode`


class FilterStep(NamedTuple):
    """One step: the number of devices left after it, and the devices dropped by it."""

    code: str
    left: int
    dropped: list[DeviceId]
    subject: str = ""
    number: int | None = None
    text: str = ""


class RequestSteps(NamedTuple):
    """Steps for one alternative of a claim's request."""

    claim: str
    request: str
    alternative: str
    needed: int
    every: bool
    steps: list[FilterStep]


def pending_claims(snapshot: Snapshot, pod: Pod) -> list[ResourceClaim]:
    """Return the unallocated claims of a pod; empty if a claim is missing or unusable."""
    known, namespace = Knowledge(Sharing(), lambda _: True), pod.metadata.namespace
    found = claims_of(pod, snapshot.group_of(pod), lambda name: snapshot.get(ResourceClaim, name, namespace), known)
    return [*found.pending] if isinstance(found, PodClaims) else []


def steps_of(snapshot: Snapshot, claims: Iterable[ResourceClaim], meter: StepMeter | None) -> list[RequestSteps]:
    """Return the steps of every request of the claims. Raises OutOfSteps if the meter's steps are used up.

    Claims are named namespace/name. The needed number is 0 for a request of all devices.
    """
    hardware = Hardware(snapshot.pools, meter)
    found = []
    for claim in claims:
        for ask in asks_of(claim, snapshot).values():
            steps = _Steps(ask, hardware, snapshot).found(_constraint_of(claim, ask))
            where = f"{claim.metadata.namespace}/{claim.metadata.name}"
            every = ask.spec.allocationMode == "All"
            needed = 0 if every else max(ask.spec.count, 1)
            found.append(RequestSteps(where, ask.name.partition("/")[0], ask.name, needed, every, steps))
    return found


class _Steps:
    """Computes the steps of one request."""

    def __init__(self, ask: Ask, hardware: Hardware, snapshot: Snapshot) -> None:
        self._ask, self._hardware, self._snapshot = ask, hardware, snapshot
        self._census = DeviceCensus(ask, hardware, snapshot.taken)

    def found(self, attribute: str) -> list[FilterStep]:
        """Return all steps of the request. `attribute` is the constraint's attribute, empty without a constraint."""
        ask, census = self._ask, self._census
        usable = self._hardware.usable
        steps = [_step(StepCode.PUBLISHED, self._hardware.devices, usable)]
        steps.append(_step(StepCode.CLASS, usable, census.of_class, subject=ask.class_name))
        before = census.of_class
        for number, expression in enumerate(ask.selectors):
            after = census.after(number + 1)
            steps.append(_step(StepCode.SELECTOR, before, after, number=number, text=_words(expression)))
            before = after
        steps.append(_step(StepCode.TOLERATED, census.selected, census.tolerated))
        # admin access takes no devices
        free = census.tolerated if getattr(ask.spec, "adminAccess", None) else census.free
        steps.append(_step(StepCode.FREE, census.tolerated, free))
        drawable = self._drawable(free)
        steps.append(_step(StepCode.COUNTERS, free, drawable))
        agreeing = _agreeing(drawable, attribute, max(ask.spec.count, 1))
        steps.append(_step(CONSTRAINT, drawable, agreeing, subject=attribute))
        return steps

    def _drawable(self, devices: Sequence[Published]) -> list[Published]:
        """Return the devices whose counters suffice, each considered on its own.

        Devices that draw on no counters suffice.
        """
        uses = self._snapshot.uses
        return [
            one
            for one in devices
            if not one.device.consumesCounters or uses[PoolName(one.id.driver, one.id.pool)].left.fits(one.device)
        ]


def _step(code: str, before: Sequence[Published], after: Sequence[Published], subject: str = "", number: int | None = None, text: str = "") -> FilterStep:  # fmt: skip
    kept = {one.id for one in after}
    return FilterStep(code, len(after), [one.id for one in before if one.id not in kept], subject, number, text)


def _words(expression: str) -> str:
    """Return a selector in readable form where possible, like `model = a100, memory ≥ 40Gi`."""
    return ", ".join(in_words(part) for part in conjuncts(expression))


def _constraint_of(claim: ResourceClaim, ask: Ask) -> str:
    """Return the attribute that the devices of a request must share; empty without such a constraint.

    This is the first `matchAttribute` that covers the request.
    """
    main = ask.name.partition("/")[0]
    for one in claim.spec.devices.constraints:
        if one.matchAttribute and (not one.requests or main in one.requests or ask.name in one.requests):
            return one.matchAttribute
    return ""


def _agreeing(devices: Sequence[Published], attribute: str, needed: int) -> list[Published]:
    """Return the devices that share their attribute value with enough other devices of their node.

    The attribute is DOMAIN/NAME. An empty attribute keeps all devices; otherwise, devices without the attribute are
    left out.
    """
    if not attribute:
        return [*devices]
    domain, _, name = attribute.rpartition("/")
    groups: dict[tuple[str, str], list[Published]] = {}
    for one in devices:
        value = one.view.attributes.get(domain or one.id.driver, {}).get(name)
        if value is not None:
            groups.setdefault((one.node, str(value)), []).append(one)
    kept = {one.id for group in groups.values() if len(group) >= needed for one in group}
    return [one for one in devices if one.id in kept]
