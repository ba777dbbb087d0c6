"""Checks an allocation against its claims and the published devices, independently of how it was found.

Intended for tests, for checking other schedulers, and for recorded clusters. Every rule is checked directly on the
wire objects, device by device. Left out: whether a better or an earlier allocation exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from dray.allocator.capacity import CapacityFault, Consumption, consumption
from dray.allocator.content import comparable, content_of, listed
from dray.allocator.identity import RESULTS_LIMIT, Features
from dray.allocator.layout import Layout
from dray.allocator.pools import reaches, view
from dray.allocator.taints import intolerable
from dray.api.allocations import DeviceId, Share, consumed
from dray.api.pools import by_pool
from dray.api.quantity import ZERO, Quantity
from dray.api.selectors import node_selector_matches
from dray.api.types.core import Node, NodeSelector
from dray.api.types.resource import (
    AllocationResult,
    Device,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from dray.cel import STORED, DeviceView, EvaluationError, compile_selector
from dray.cel.derived import compile_derived

DeviceRequestSpec = ExactDeviceRequest | DeviceSubRequest


class _Offer(NamedTuple):
    id: DeviceId
    device: Device
    slice: ResourceSlice


def verify(
    results: Sequence[dict[str, Any]],
    node: Node,
    claims: Sequence[ResourceClaim],
    classes: Iterable[DeviceClass],
    slices: Iterable[ResourceSlice],
    taken: Collection[tuple[str, str, str]] = (),
    features: Features = Features(),  # noqa: B008 (frozen)
    shares: Iterable[Share] = (),
) -> list[str]:
    """Return what is wrong with results, given as one AllocationResult tree for each claim. Empty for a valid
    allocation.
    """
    if len(results) != len(claims):
        return [f"{len(results)} results for {len(claims)} claims"]
    slices = tuple(slices)
    checker = _AllocationChecker(node, classes, slices, taken, features)
    found = [msgspec.convert(tree, AllocationResult) for tree in results]
    complaints = [
        f"claim {claim.metadata.name}: {complaint}"
        for claim, result in zip(claims, found, strict=True)
        for complaint in checker.check(claim, result)
    ]
    return complaints + overcommitted(found, slices, checker.taken, tuple(shares), features)


class _AllocationChecker:
    def __init__(
        self,
        node: Node,
        classes: Iterable[DeviceClass],
        slices: Iterable[ResourceSlice],
        taken: Collection[tuple[str, str, str]],
        features: Features,
    ) -> None:
        seen = view(
            node,
            by_pool(slices),
            content_of,
            partial(Layout, features=features),
            features,
        )
        self.node = node
        self.features = features
        self.classes = {class_.metadata.name: class_ for class_ in classes}
        self.taken = {DeviceId(*device) for device in taken}
        self.offers = {
            (id_ := DeviceId(slice_.spec.driver, slice_.spec.pool.name, device.name)): _Offer(id_, device, slice_)
            for slice_ in seen.slices
            for device in slice_.spec.devices
            if not slice_.spec.perDeviceNodeSelection or reaches(device, node)
        }
        self.used: set[DeviceId] = set()  # devices of the claims checked so far

    def check(self, claim: ResourceClaim, result: AllocationResult) -> Iterator[str]:
        entries = result.devices.results
        ids = [DeviceId(entry.driver, entry.pool, entry.device) for entry in entries]
        if len(entries) > RESULTS_LIMIT:
            yield f"{len(entries)} results, more than {RESULTS_LIMIT}"
        alone = [id_ for id_ in ids if id_ not in self.offers or not self._shared(self.offers[id_])]
        if len(alone) != len(set(alone)):
            yield "a device is listed twice"
        left = list(entries)
        for request in claim.spec.devices.requests or ():
            names = {request.name} | {f"{request.name}/{sub.name}" for sub in request.firstAvailable}
            own = [entry for entry in left if entry.request in names]
            left = [entry for entry in left if entry.request not in names]
            yield from self._request(request, own)
        for entry in left:
            yield f"result for {entry.request}, which is no request"
        for number, constraint in enumerate(claim.spec.devices.constraints):
            yield from self._constraint(number, constraint, claim, entries)
        yield from self._config(claim, result)
        if result.nodeSelector is not None and not self._selected(result.nodeSelector):
            yield "the node selector excludes the node"
        if result.nodeSelector is None and any(
            id_ in self.offers and self.offers[id_].slice.spec.nodeName for id_ in ids
        ):
            yield "a device of one node is allocated to all nodes"
        self.used.update(alone)

    def _shared(self, offer: _Offer) -> bool:
        return self.features.consumable_capacity and bool(offer.device.allowMultipleAllocations)

    def _selected(self, selector: NodeSelector) -> bool:
        return node_selector_matches(selector, self.node.metadata.labels, self.node.metadata.name)

    def _request(self, request: DeviceRequest, entries: Sequence[DeviceRequestAllocationResult]) -> Iterator[str]:
        names = {entry.request for entry in entries}
        if len(names) > 1:
            yield f"request {request.name}: two alternatives at once"
            return
        spec = self._spec(request, next(iter(names), request.name))
        if spec is None:
            yield f"request {request.name}: no alternative was chosen"
            return
        class_ = self.classes.get(spec.deviceClassName)
        if class_ is None:
            yield f"request {request.name}: there is no class {spec.deviceClassName}"
            return
        admin = isinstance(spec, ExactDeviceRequest) and bool(spec.adminAccess)
        selectors = (*class_.spec.selectors, *spec.selectors)
        for entry in entries:
            for complaint in self._device(entry, spec, admin, selectors):
                yield f"request {entry.request}: device {entry.driver}/{entry.pool}/{entry.device} {complaint}"
        wanted = spec.count
        if spec.allocationMode == "All":
            offers = [offer for offer in self.offers.values() if self._matches(offer, selectors)]
            if self.features.consumable_capacity:
                offers = [offer for offer in offers if isinstance(self._consumption(spec, offer), dict)]
            wanted = len(offers)
        if len(entries) != wanted:
            yield f"request {request.name}: {len(entries)} devices instead of {wanted}"

    def _matches(self, offer: _Offer, selectors: Sequence[DeviceSelector]) -> bool:
        seen = _seen(offer)
        try:
            return all(
                selector.cel is not None and compile_selector(selector.cel.expression, features=STORED).matches(seen)
                for selector in selectors
            )
        except EvaluationError:
            return False

    def _spec(self, request: DeviceRequest, name: str) -> DeviceRequestSpec | None:
        if request.exactly is not None:
            return request.exactly
        return next((sub for sub in request.firstAvailable if f"{request.name}/{sub.name}" == name), None)

    def _device(
        self,
        entry: DeviceRequestAllocationResult,
        spec: DeviceRequestSpec,
        admin: bool,
        selectors: Sequence[DeviceSelector],
    ) -> Iterator[str]:
        offer = self.offers.get(DeviceId(entry.driver, entry.pool, entry.device))
        if offer is None:
            yield "is not offered to the node"
            return
        if bool(entry.adminAccess) != admin:
            yield "has the wrong admin access"
        if not admin and offer.id in self.taken:
            yield "is taken"
        if not admin and offer.id in self.used:
            yield "is given to an earlier claim"
        if not self._matches(offer, selectors):
            yield "does not match the selectors"
        if self.features.device_taints and intolerable(offer.device.taints, spec.tolerations):
            yield "has a taint that is not tolerated"
        if entry.tolerations != spec.tolerations:
            yield "does not carry the tolerations of its request"
        if self.features.binding_conditions and entry.bindingConditions != offer.device.bindingConditions:
            yield "does not carry its binding conditions"
        yield from self._capacity(entry, spec, offer)

    def _consumption(self, spec: DeviceRequestSpec, offer: _Offer) -> Consumption | CapacityFault | None:
        asked = spec.capacity.requests if spec.capacity is not None else {}
        return consumption(offer.device, asked, self.features.fractional_capacity_range)

    def _capacity(self, entry: DeviceRequestAllocationResult, spec: DeviceRequestSpec, offer: _Offer) -> Iterator[str]:
        if not self.features.consumable_capacity:
            return
        consumed_ = self._consumption(spec, offer)
        if not isinstance(consumed_, dict):
            yield "does not have the capacity"
        elif not self._shared(offer):
            if entry.shareID or entry.consumedCapacity:
                yield "is not shareable"
        elif not entry.shareID:
            yield "has no share"
        elif {name: Quantity.parse(much) for name, much in entry.consumedCapacity.items()} != consumed_:
            yield "consumes something else than its request"

    def _constraint(
        self,
        number: int,
        constraint: DeviceConstraint,
        claim: ResourceClaim,
        entries: Sequence[DeviceRequestAllocationResult],
    ) -> Iterator[str]:
        named = set(constraint.requests)
        covered = [
            entry
            for entry in entries
            if not named or entry.request in named or entry.request.partition("/")[0] in named
        ]
        attribute = constraint.matchAttribute or constraint.distinctAttribute or ""
        values = [self._values(entry, attribute, self._derivation(claim, entry, attribute)) for entry in covered]
        if not all(values):
            yield f"constraint #{number}: a device has no attribute {attribute}"
        elif constraint.matchAttribute is not None and values and not frozenset.intersection(*values):
            yield f"constraint #{number}: devices differ in {attribute}"
        elif constraint.matchAttribute is None and sum(map(len, values)) != len(frozenset().union(*values)):
            yield f"constraint #{number}: devices agree in {attribute}"

    def _derivation(self, claim: ResourceClaim, entry: DeviceRequestAllocationResult, attribute: str) -> str | None:
        """Return the expression with which the request of an entry derives an attribute, or None if it derives no
        such one.

        Also returns None if the request is unknown or the feature is off.
        """
        name = entry.request.partition("/")[0]
        request = next((one for one in claim.spec.devices.requests or () if one.name == name), None)
        spec = self._spec(request, entry.request) if request is not None else None
        if spec is None or not self.features.derived_attributes:
            return None
        return next((one.expression for one in spec.derivedAttributes if one.name == attribute), None)

    def _values(
        self, entry: DeviceRequestAllocationResult, attribute: str, derivation: str | None
    ) -> frozenset[object]:
        offer = self.offers.get(DeviceId(entry.driver, entry.pool, entry.device))
        if offer is None:
            return frozenset()
        if derivation is not None:
            return self._derived(offer, derivation)
        domain, _, name = attribute.partition("/")
        held = offer.device.attributes.get(attribute)
        if held is None and domain == entry.driver:
            held = offer.device.attributes.get(name)
        if held is None:
            return frozenset()
        several = listed(held) if self.features.list_type_attributes else ()
        return frozenset(several or [comparable(held, str(offer.id))])

    def _derived(self, offer: _Offer, derivation: str) -> frozenset[object]:
        try:
            found = compile_derived(derivation, features=STORED).values(_seen(offer))
        except EvaluationError:
            return frozenset()
        if found.is_list and not self.features.list_type_attributes:
            return frozenset([str(offer.id)])
        return frozenset(found.values)

    def _config(self, claim: ResourceClaim, result: AllocationResult) -> Iterator[str]:
        chosen = {entry.request for entry in result.devices.results}
        names = chosen | {name.partition("/")[0] for name in chosen}
        for config in claim.spec.devices.config:
            applies = not config.requests or bool(names & set(config.requests))
            listed = any(
                entry.source == "FromClaim" and entry.opaque == config.opaque for entry in result.devices.config
            )
            if applies and not listed:
                yield "a configuration of the claim is missing"
        for entry in result.devices.config:
            for name in entry.requests:
                if entry.source == "FromClass" and name not in chosen:
                    yield f"class configuration for {name}, which was not chosen"


def overcommitted(
    results: Sequence[AllocationResult],
    slices: Sequence[ResourceSlice],
    taken: Collection[DeviceId],
    shares: Sequence[Share],
    features: Features,
) -> list[str]:
    """Return which counters and capacities new results exceed, together with what is in use. Empty if none is
    exceeded.

    Devices with admin access count as well, as they do in Kubernetes while devices are chosen.
    """
    entries = [entry for result in results for entry in result.devices.results]
    new = {DeviceId(entry.driver, entry.pool, entry.device) for entry in entries}
    own = [
        Share.of((entry.driver, entry.pool, entry.device), entry.shareID, entry.consumedCapacity)
        for entry in entries
        if entry.shareID
    ]
    held = consumed((*shares, *own))
    before = {*taken, *(share.device for share in shares)}
    drawn: dict[tuple[str, ...], Quantity] = {}
    fresh: set[tuple[str, ...]] = set()  # counters that new devices consume
    complaints = []
    for slice_ in slices:
        pool = (slice_.spec.driver, slice_.spec.pool.name)
        for device in slice_.spec.devices:
            id_ = DeviceId(*pool, device.name)
            for name, much in held.get(id_, {}).items():
                if id_ in new and name in device.capacity and much > Quantity.parse(device.capacity[name].value):
                    complaints.append(f"device {id_} has less {name} than is taken of it")
            for used in device.consumesCounters if id_ in new or id_ in taken or id_ in held else ():
                for name, counter in used.counters.items():
                    key = (*pool, used.counterSet, name)
                    drawn[key] = drawn.get(key, ZERO) + Quantity.parse(counter.value)
                    if id_ not in before:
                        fresh.add(key)
    if features.partitionable_devices:
        complaints += _overdrawn(slices, {key: drawn[key] for key in fresh})
    return complaints


def _overdrawn(slices: Sequence[ResourceSlice], drawn: dict[tuple[str, ...], Quantity]) -> list[str]:
    return [
        f"counter {name} of counter set {set_.name} in pool {slice_.spec.pool.name} is overdrawn"
        for slice_ in slices
        for set_ in slice_.spec.sharedCounters
        for name, counter in set_.counters.items()
        if (key := (slice_.spec.driver, slice_.spec.pool.name, set_.name, name)) in drawn
        and drawn[key] > Quantity.parse(counter.value)
    ]


def _seen(offer: _Offer) -> DeviceView:
    device = offer.device
    return DeviceView(offer.id.driver, device.attributes, device.capacity, device.allowMultipleAllocations or False)
