"""A plain depth-first search over devices: what the allocator is measured against, in speed and in answers.

It tries every device for every request in order, as the reference does, with no foresight and no bit sets, and knows
nothing of how the allocator finds its answers. Left out: configuration and node selectors of results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dray.allocator import DeviceId, Features
from dray.allocator.content import comparable, content_of
from dray.allocator.layout import Layout, PoolState
from dray.allocator.pools import group, view
from dray.allocator.taints import intolerable
from dray.api.types.core import Node
from dray.api.types.resource import (
    Device,
    DeviceClass,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from dray.cel import DeviceView, EvaluationError, compile_selector

LIMIT = 32
HINT = ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"

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
) -> Answer:
    """The first answer of an exhaustive search; raises TooSlow at the deadline."""
    return _Plain(node, claims, classes, slices, taken, features, deadline).run()


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
    ) -> None:
        seen = view(node, group(slices), content_of, Layout)
        devices = [device for slice_ in seen.slices for device in slice_.spec.devices]
        self.offers = [_Offer(id_, device) for id_, device in zip(seen.devices, devices, strict=True)]
        self.pools = [(str(name), shape.state) for name, shape in zip(seen.pools, seen.layout.pools, strict=True)]
        self.claims = claims
        self.classes: Mapping[str, DeviceClass] = {class_.metadata.name: class_ for class_ in classes}
        self.taken = {DeviceId(*device) for device in taken}
        self.features = features
        self.deadline = deadline
        self.using: dict[DeviceId, set[int]] = {}
        self.placed: list[list[tuple[_Ask, _Offer]]] = [[] for _ in claims]
        self.asks: list[list[list[_Ask]]] = []

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
                raise _Error(f"{about}asks for all devices, but resource pool {pool} is currently {state.value}")
            every += [
                offer
                for offer in self.offers
                if f"{offer.id.driver}/{offer.id.pool}" == pool and self._matches(ask, offer)
            ]
        return ask._replace(every=tuple(every))

    def _name(self, number: int) -> str:
        meta = self.claims[number].metadata
        return f"{meta.namespace}/{meta.name}"

    def _matches(self, ask: _Ask, offer: _Offer) -> bool:
        own = f"claim {self._name(ask.claim)}"
        for owner, selectors in (
            (f"class {ask.spec.deviceClassName}", ask.class_.spec.selectors),
            (own, ask.spec.selectors),
        ):
            for number, selector in enumerate(selectors):
                device = DeviceView(
                    offer.id.driver,
                    offer.device.attributes,
                    offer.device.capacity,
                    offer.device.allowMultipleAllocations or False,
                )
                try:
                    matches = selector.cel is not None and compile_selector(selector.cel.expression).matches(device)
                except EvaluationError as error:
                    hint = HINT if "no such key" in str(error) else ""
                    place = f"selector #{number} on device {offer.id}"
                    raise _Error(f"{owner}: {place}: CEL runtime error: {error}{hint}") from error
                if not matches:
                    return False
        return True

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
            if ask.every is None and (self._in_use(ask, offer) or not self._matches(ask, offer)):
                continue
            if not self._usable(ask, offer):
                continue
            self.using.setdefault(offer.id, set()).add(claim)
            self.placed[claim].append((ask, offer))
            try:
                self._device(claim, request, ask, got + 1, place + 1)
            except _Exceeded:
                self._take_back(claim, offer)
                raise
            self._take_back(claim, offer)

    def _take_back(self, claim: int, offer: _Offer) -> None:
        self.placed[claim].pop()
        self.using[offer.id].remove(claim)

    def _candidates(self, ask: _Ask, got: int, start: int) -> Iterator[tuple[int, _Offer]]:
        if ask.every is not None:
            yield 0, ask.every[got]
            return
        yield from ((place, self.offers[place]) for place in range(start, len(self.offers)))

    def _in_use(self, ask: _Ask, offer: _Offer) -> bool:
        users = self.using.get(offer.id, set())
        return ask.claim in users if ask.admin else bool(users) or offer.id in self.taken

    def _usable(self, ask: _Ask, offer: _Offer) -> bool:
        if self._in_use(ask, offer):
            return False
        if self.features.device_taints and intolerable(offer.device.taints, ask.spec.tolerations):
            return False
        if all(self._constraint_holds(number, ask, offer) for number in range(len(self._constraints(ask.claim)))):
            return True
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
        value = _value(offer, attribute)
        others = [_value(placed, attribute) for other, placed in self.placed[ask.claim] if covers(other)]
        if value is None:
            return False
        if constraint.matchAttribute is not None:
            return all(other == value for other in others)
        return value not in others


def _value(offer: _Offer, attribute: str) -> object:
    domain, _, name = attribute.partition("/")
    held = offer.device.attributes.get(attribute)
    if held is None and domain == offer.id.driver:
        held = offer.device.attributes.get(name)
    return None if held is None else comparable(held, str(offer.id))
