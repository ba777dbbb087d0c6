"""A plain depth-first search over devices: what the allocator is measured against, in speed and in answers.

It tries every device for every request in order, as the reference does, with no foresight and no bit sets, and knows
nothing of how the allocator finds its answers. Left out: configuration and node selectors of results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from dray.allocator import Features
from dray.allocator.capacity import CapacityFault, Consumption, consumption
from dray.allocator.content import comparable, content_of, listed
from dray.allocator.layout import Layout
from dray.allocator.pools import reaches, view
from dray.allocator.taints import intolerable
from dray.api.allocations import DeviceId, Share, consumed
from dray.api.pools import by_pool
from dray.api.quantity import Quantity
from dray.api.reasons.devices import InputProblem, PoolState
from dray.api.reasons.wording import input_problem
from dray.api.types.core import Node
from dray.api.types.resource import (
    Device,
    DeviceClass,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from dray.cel import STORED, CelError, DeviceView, EvaluationError, compile_selector
from dray.cel.derived import compile_derived

LIMIT = 32
HINT = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"

CAPACITY_OFF = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
STATES = {PoolState.INCOMPLETE: "being updated", PoolState.INVALID: "invalid"}

Spec = ExactDeviceRequest | DeviceSubRequest
Placement = tuple[str, DeviceId]


class Answer(NamedTuple):
    """What the search found: placements for each claim, or an error, or neither."""

    placements: tuple[tuple[Placement, ...], ...] | None = None
    error: str | None = None


class TooSlow(Exception):
    """The deadline passed."""


class _Found(Exception):
    pass


class _Error(Exception):
    pass


class _Exceeded(Exception):
    pass


class _Offer(NamedTuple):
    id: DeviceId
    device: Device
    is_within_reach: bool = True


class _Ask(NamedTuple):
    claim: int
    request: str
    name: str
    label: str
    spec: Spec
    class_: DeviceClass
    every: tuple[_Offer, ...] | None

    @property
    def wanted(self) -> int:
        return self.spec.count if self.every is None else len(self.every)

    @property
    def admin(self) -> bool:
        return isinstance(self.spec, ExactDeviceRequest) and bool(self.spec.adminAccess)


def plain_search(
    node: Node,
    claims: Sequence[ResourceClaim],
    classes: Sequence[DeviceClass],
    slices: Sequence[ResourceSlice],
    taken: Sequence[tuple[str, str, str]] = (),
    features: Features = Features(),  # noqa: B008 (frozen)
    deadline: float | None = None,
    shares: Sequence[Share] = (),
) -> Answer:
    """The first answer of an exhaustive search; raises TooSlow at the deadline."""
    return _Plain(node, claims, classes, slices, taken, features, deadline, shares).run()


class _Plain:
    def __init__(
        self,
        node: Node,
        claims: Sequence[ResourceClaim],
        classes: Sequence[DeviceClass],
        slices: Sequence[ResourceSlice],
        taken: Sequence[tuple[str, str, str]],
        features: Features,
        deadline: float | None,
        shares: Sequence[Share],
    ) -> None:
        seen = view(node, by_pool(slices), content_of, partial(Layout, features=features), features)
        devices = [
            (device, not slice_.spec.perDeviceNodeSelection or reaches(device, node))
            for slice_ in seen.slices
            for device in slice_.spec.devices
        ]
        self.offers = [_Offer(id_, *device) for id_, device in zip(seen.devices, devices, strict=True)]
        self.pools = [(str(name), shape.state) for name, shape in zip(seen.pools, seen.layout.pools, strict=True)]
        self.claims = claims
        self.classes: Mapping[str, DeviceClass] = {class_.metadata.name: class_ for class_ in classes}
        self.taken = {DeviceId(*device) for device in taken}
        if not features.consumable_capacity:
            self.taken |= {share.device for share in shares}
        self.features = features
        self.deadline = deadline
        self.using: dict[DeviceId, set[int]] = {}
        self.placed: list[list[tuple[_Ask, _Offer]]] = [[] for _ in claims]
        self.asks: list[list[list[_Ask]]] = []
        self.consumed = consumed(shares)
        self.counters = self._counters(slices) if features.partitionable_devices else {}
        self.charges: dict[DeviceId, int] = dict.fromkeys(self.taken | set(self.consumed), 1)
        self.everything = {
            DeviceId(slice_.spec.driver, slice_.spec.pool.name, device.name): device
            for slice_ in slices
            for device in slice_.spec.devices
        }
        for slice_ in slices:
            for device in slice_.spec.devices:
                id_ = DeviceId(slice_.spec.driver, slice_.spec.pool.name, device.name)
                if id_ in self.charges:
                    self._charge(_Offer(id_, device), -1)

    def _counters(self, slices: Sequence[ResourceSlice]) -> dict[tuple[str, str, str, str], Quantity]:
        """What each counter has, by driver, pool, set and name."""
        return {
            (slice_.spec.driver, slice_.spec.pool.name, set_.name, name): Quantity.parse(counter.value)
            for slice_ in slices
            for set_ in slice_.spec.sharedCounters
            for name, counter in set_.counters.items()
        }

    def _charge(self, offer: _Offer, sign: int) -> None:
        for drawn in offer.device.consumesCounters:
            for name, counter in drawn.counters.items():
                key = (offer.id.driver, offer.id.pool, drawn.counterSet, name)
                amount = Quantity.parse(counter.value)
                if key in self.counters:
                    self.counters[key] = self.counters[key] + (amount if sign > 0 else -amount)

    def _take(self, ask: _Ask, offer: _Offer) -> None:
        self.placed[ask.claim].append((ask, offer))
        if not self._shared(offer):
            self.using.setdefault(offer.id, set()).add(ask.claim)
        else:
            held = self.consumed.setdefault(offer.id, {})
            for name, amount in (self._consumption(ask, offer) or {}).items():
                held[name] = held[name] + amount if name in held else amount
        if not self._shared(offer) or not self.charges.get(offer.id):
            self._charge(offer, -1)
        self.charges[offer.id] = self.charges.get(offer.id, 0) + 1

    def _take_back(self, ask: _Ask, offer: _Offer) -> None:
        self.placed[ask.claim].pop()
        if not self._shared(offer):
            self.using[offer.id].remove(ask.claim)
        else:
            held = self.consumed[offer.id]
            for name, amount in (self._consumption(ask, offer) or {}).items():
                held[name] = held[name] - amount
        self.charges[offer.id] -= 1
        if not self._shared(offer) or not self.charges[offer.id]:
            self._charge(offer, 1)

    def _shared(self, offer: _Offer) -> bool:
        return self.features.consumable_capacity and bool(offer.device.allowMultipleAllocations)

    def _consumption(self, ask: _Ask, offer: _Offer) -> Consumption | None:
        requests = ask.spec.capacity.requests if ask.spec.capacity is not None else {}
        found = consumption(offer.device, requests, self.features.fractional_capacity_range)
        if isinstance(found, CapacityFault):
            problem = InputProblem(found.code, self._name(ask.claim), ask.label, found.capacity, str(offer.id))
            raise _Error(input_problem(problem))
        return found

    def _compatible(self, offer: _Offer) -> bool:
        """Whether all devices in use that draw on a counter set of this one have a group in common with it."""
        using = [
            device
            for id_, device in self.everything.items()
            if id_[:2] == offer.id[:2] and self.charges.get(id_) and device.consumesCounters
        ]
        for own in offer.device.consumesCounters:
            sets = [
                set(drawn.compatibilityGroups)
                for device in using
                for drawn in device.consumesCounters
                if drawn.counterSet == own.counterSet
            ]
            groups = set(own.compatibilityGroups)
            if any(bool(other) != bool(groups) for other in sets) or (groups and not groups.intersection(*sets)):
                return False
        return True

    def _could_serve(self, ask: _Ask, offer: _Offer) -> bool:
        """Whether a device has the capacity that is asked for when nobody uses it."""
        return not self.features.consumable_capacity or self._consumption(ask, offer) is not None

    def _has_capacity(self, ask: _Ask, offer: _Offer) -> bool:
        if not self.features.consumable_capacity:
            return True
        asked = self._consumption(ask, offer)
        held = self.consumed.get(offer.id, {}) if self._shared(offer) else {}
        return asked is not None and all(
            name not in held or held[name] + amount <= Quantity.parse(offer.device.capacity[name].value)
            for name, amount in asked.items()
        )

    def _has_counters(self, offer: _Offer) -> bool:
        if not offer.device.consumesCounters:
            return True
        if not self.features.partitionable_devices:
            return False
        if self._shared(offer) and self.charges.get(offer.id):
            return True
        if self.features.compatibility_groups and not self._compatible(offer):
            return False
        self._charge(offer, -1)
        enough = all(
            left.sign >= 0 for key, left in self.counters.items() if key[:2] == (offer.id.driver, offer.id.pool)
        )
        self._charge(offer, 1)
        return enough

    def run(self) -> Answer:
        try:
            for number in range(len(self.claims)):
                self.asks.append(self._read(number))
            self._request(0, 0)
        except _Found:
            return Answer(tuple(tuple((ask.name, offer.id) for ask, offer in placed) for placed in self.placed), None)
        except _Error as error:
            return Answer(error=str(error))
        if any(state is PoolState.INVALID for _, state in self.pools):
            return Answer(error="invalid resource pools were encountered")
        return Answer()

    # Reading the claims.

    def _read(self, number: int) -> list[list[_Ask]]:
        claim = self.claims[number]
        asks = []
        for request in claim.spec.devices.requests or ():
            specs: Sequence[Spec] = request.firstAvailable or ((request.exactly,) if request.exactly else ())
            if not self.features.consumable_capacity and any(spec.capacity is not None for spec in specs):
                subject = next(spec for spec in specs if spec.capacity is not None)
                label = (
                    f"subrequest {subject.name}" if isinstance(subject, DeviceSubRequest) else f"request {request.name}"
                )
                raise _Error(f"claim {self._name(number)}, {label}: {CAPACITY_OFF}")
            asks.append([self._ask(number, request.name, spec) for spec in specs])
        least = sum(min(ask.wanted for ask in request) for request in asks)
        if least > LIMIT:
            limit = f"number of requested devices {least} exceeds the claim limit of {LIMIT}"
            raise _Error(f"claim {self._name(number)}: {limit}")
        return asks

    def _ask(self, number: int, request: str, spec: Spec) -> _Ask:
        sub = isinstance(spec, DeviceSubRequest)
        label = spec.name if isinstance(spec, DeviceSubRequest) else request
        about = f"claim {self._name(number)}, request {label}: "
        class_ = self.classes.get(spec.deviceClassName)
        if class_ is None:
            name = spec.deviceClassName
            raise _Error(f'{about}could not retrieve device class {name}: device class "{name}" not found')
        ask = _Ask(number, request, f"{request}/{label}" if sub else request, label, spec, class_, None)
        if spec.allocationMode != "All":
            return ask
        every = []
        for pool, state in self.pools:
            if state is not PoolState.USABLE:
                raise _Error(f"{about}asks for all devices, but resource pool {pool} is currently {STATES[state]}")
            every += [
                offer
                for offer in self.offers
                if f"{offer.id.driver}/{offer.id.pool}" == pool
                and self._matches(ask, offer)
                and self._could_serve(ask, offer)
            ]
        return ask._replace(every=tuple(every))

    def _name(self, number: int) -> str:
        meta = self.claims[number].metadata
        return f"{meta.namespace}/{meta.name}"

    def _matches(self, ask: _Ask, offer: _Offer) -> bool:
        if offer.device.bindingConditions and not self.features.binding_conditions:
            return False
        own = f"claim {self._name(ask.claim)}"
        for owner, selectors in (
            (f"class {ask.spec.deviceClassName}", ask.class_.spec.selectors),
            (own, ask.spec.selectors),
        ):
            for number, selector in enumerate(selectors):
                try:
                    matches = selector.cel is not None and compile_selector(
                        selector.cel.expression, features=STORED
                    ).matches(_seen(offer))
                except EvaluationError as error:
                    hint = HINT if "no such key" in str(error) else ""
                    place = f"selector #{number} on device {offer.id}"
                    raise _Error(f"{owner}: {place}: CEL runtime error: {error}{hint}") from error
                if not matches:
                    return False
        return offer.is_within_reach

    # Searching.

    def _request(self, claim: int, request: int) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TooSlow
        if claim == len(self.claims):
            raise _Found
        if request == len(self.asks[claim]):
            try:
                self._request(claim + 1, 0)
            except _Exceeded:
                return
            return
        exceeded = True
        for ask in self.asks[claim][request]:
            try:
                self._device(claim, request, ask, 0, 0)
                exceeded = False
            except _Exceeded:
                continue
        if exceeded:
            raise _Exceeded

    def _device(self, claim: int, request: int, ask: _Ask, got: int, start: int) -> None:
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TooSlow
        if ask.every is not None and not ask.every:
            return
        if got == ask.wanted:
            self._request(claim, request + 1)
            return
        if len(self.placed[claim]) + ask.wanted - got > LIMIT:
            raise _Exceeded
        for place, offer in self._candidates(ask, got, start):
            if ask.every is None and (
                self._in_use(ask, offer) or not self._matches(ask, offer) or not self._has_capacity(ask, offer)
            ):
                continue
            if not self._usable(ask, offer):
                continue
            self._take(ask, offer)
            try:
                self._device(claim, request, ask, got + 1, place + 1)
            except _Exceeded:
                self._take_back(ask, offer)
                raise
            self._take_back(ask, offer)

    def _candidates(self, ask: _Ask, got: int, start: int) -> Iterator[tuple[int, _Offer]]:
        if ask.every is not None:
            yield 0, ask.every[got]
            return
        yield from ((place, self.offers[place]) for place in range(start, len(self.offers)))

    def _in_use(self, ask: _Ask, offer: _Offer) -> bool:
        users = self.using.get(offer.id, set())
        return ask.claim in users if ask.admin else bool(users) or offer.id in self.taken

    def _usable(self, ask: _Ask, offer: _Offer) -> bool:
        if self._in_use(ask, offer) or not self._has_counters(offer):
            return False
        if self.features.device_taints and intolerable(offer.device.taints, ask.spec.tolerations):
            return False
        if all(self._constraint_holds(number, ask, offer) for number in range(len(self._constraints(ask.claim)))):
            return self._has_capacity(ask, offer)
        if ask.every is not None:
            about = f"claim {self._name(ask.claim)}, request {ask.label}: cannot add device {offer.id}"
            raise _Error(f"{about} because a claim constraint would not be satisfied")
        return False

    def _constraints(self, claim: int) -> Sequence[object]:
        return self.claims[claim].spec.devices.constraints

    def _constraint_holds(self, number: int, ask: _Ask, offer: _Offer) -> bool:
        constraint = self.claims[ask.claim].spec.devices.constraints[number]

        def covers(other: _Ask) -> bool:
            return not constraint.requests or bool({other.request, other.name} & set(constraint.requests))

        if not covers(ask):
            return True
        attribute = constraint.matchAttribute or constraint.distinctAttribute or ""
        values = self._values(ask, offer, attribute)
        others = [self._values(other, placed, attribute) for other, placed in self.placed[ask.claim] if covers(other)]
        if constraint.matchAttribute is not None:
            return bool(values.intersection(*others))
        return bool(values) and all(values.isdisjoint(other) for other in others)

    def _values(self, ask: _Ask, offer: _Offer, attribute: str) -> frozenset[object]:
        """The values that a request sees in an attribute of a device: its own computation goes before what is published."""
        lists = self.features.list_type_attributes
        for derived in ask.spec.derivedAttributes if self.features.derived_attributes else ():
            if derived.name == attribute:
                try:
                    found = compile_derived(derived.expression, features=STORED).values(_seen(offer))
                except CelError as error:
                    subject = f"derived attribute {attribute} on device {offer.id}"
                    raise _Error(f"evaluate {subject} failed: {error}") from error
                return frozenset([offer.id] if found.is_list and not lists else found.values)
        return _published(offer, attribute, lists)


def _seen(offer: _Offer) -> DeviceView:
    device = offer.device
    return DeviceView(offer.id.driver, device.attributes, device.capacity, device.allowMultipleAllocations or False)


def _published(offer: _Offer, attribute: str, lists: bool) -> frozenset[object]:
    domain, _, name = attribute.partition("/")
    held = offer.device.attributes.get(attribute)
    if held is None and domain == offer.id.driver:
        held = offer.device.attributes.get(name)
    if held is None:
        return frozenset()
    return frozenset((lists and listed(held)) or [comparable(held, str(offer.id))])
