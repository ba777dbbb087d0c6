"""Creates allocation results from the decisions of the search: devices, configuration, and node selectors.

Results are JSON trees, ready to be written into claims. Left out: the choice of devices (`search`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dray.allocator.bits import positions
from dray.allocator.feasibility import DemandGrant
from dray.allocator.layout import NodeView
from dray.allocator.outcome import Allocated
from dray.allocator.plan import AllocationPlan, Alternative, PlannedRequest
from dray.api.allocations import DeviceId, Share, Taken
from dray.api.types.core import NodeSelector, NodeSelectorRequirement
from dray.api.types.resource import Device, ResourceSliceSpec
from dray.api.wire import Tree

ChosenDevice = tuple[PlannedRequest, Alternative, DemandGrant]
Placed = tuple[Alternative, int, DeviceId]


class UnsupportedTerms(ValueError):
    """The node selector of a slice has several terms, which the node selector of an allocation cannot express."""

    def __init__(self, terms: int) -> None:
        super().__init__(terms)
        self.terms = terms


def allocated(plan: AllocationPlan, view: NodeView, grants: Sequence[DemandGrant]) -> Allocated:
    """Return the outcome for one node, with a result for each claim.

    `grants` contains one grant for each request of the plan. Raises UnsupportedTerms if a slice's node selector has
    several terms.
    """
    by_claim: list[list[ChosenDevice]] = [[] for _ in plan.claims]
    for request, grant in zip(plan.requests, grants, strict=True):
        by_claim[request.claim].append((request, request.alternatives[grant.choice], grant))
    results, taken, alternatives = [], [], []
    for claim, chosen in enumerate(by_claim):
        placed = [
            (alternative, at, view.id_of(at)) for _, alternative, grant in chosen for at in positions(grant.devices)
        ]
        result = _result(plan, claim, view, chosen, placed)
        results.append(result)
        taken.append(_taken(result, placed, view.layout.shareable))
        alternatives.append(tuple([grant.choice if request.prioritized else None for request, _, grant in chosen]))
    return Allocated(tuple(results), tuple(taken), tuple(alternatives))


def _taken(result: Tree, placed: Sequence[Placed], shareable: int) -> Taken:
    """Return what a result takes, the same as `dray.api.allocations` reads from a claim.

    Devices with admin access are left out. `shareable` is the bit set of the devices that can be shared.
    """
    if not shareable:
        return Taken(tuple([device for alternative, _, device in placed if not alternative.admin]))
    devices, shares = [], []
    for (alternative, at, device), entry in zip(placed, result["devices"].get("results", ()), strict=True):
        if not alternative.admin and shareable >> at & 1:
            shares.append(Share.of(device, entry["shareID"], entry.get("consumedCapacity", {})))
        elif not alternative.admin:
            devices.append(device)
    return Taken(tuple(devices), tuple(shares))


def _tree(wire: object) -> Any:
    """Convert a wire object to plain JSON values."""
    return msgspec.json.decode(msgspec.json.encode(wire))


def _result(
    plan: AllocationPlan, claim: int, view: NodeView, chosen: Sequence[ChosenDevice], placed: Sequence[Placed]
) -> Tree:
    devices: Tree = {}
    if placed:
        devices["results"] = [_device(alternative, at, device, view) for alternative, at, device in placed]
    if config := _config(plan, claim, chosen):
        devices["config"] = config
    result: Tree = {"devices": devices}
    selector = _node_selector(view, placed)
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _config(plan: AllocationPlan, claim: int, chosen: Sequence[ChosenDevice]) -> list[Tree]:
    config = [*_class_config(plan, chosen), *_claim_config(plan, claim, chosen)]
    for entry in config:
        named = entry.get("requests", ())
        if named and all(request.name in named or alternative.name in named for request, alternative, _ in chosen):
            del entry["requests"]  # none named means all
    return config


def _device(alternative: Alternative, at: int, device: DeviceId, view: NodeView) -> Tree:
    layout = view.layout
    entry: Tree = {
        "request": alternative.name,
        "driver": device.driver,
        "pool": device.pool,
        "device": device.device,
    }
    if alternative.admin:
        entry["adminAccess"] = True
    if alternative.tolerations:
        entry["tolerations"] = _tree(alternative.tolerations)
    if layout.shareable >> at & 1:
        entry["shareID"] = str(uuid.uuid4())
        if consumed := layout.consumed(at, alternative.capacity):
            entry["consumedCapacity"] = {name: str(much) for name, much in consumed.items()}
    if layout.binding >> at & 1:
        conditions = layout.device(at)
        entry["bindingConditions"] = list(conditions.bindingConditions)
        if conditions.bindingFailureConditions:
            entry["bindingFailureConditions"] = list(conditions.bindingFailureConditions)
    if layout.features.optional_node_operations and (skipped := view.slice_of(at).spec.skipNodeOperations):
        entry["skipNodeOperations"] = list(skipped)
    return entry


def _class_config(plan: AllocationPlan, chosen: Iterable[ChosenDevice]) -> list[Tree]:
    """Return the configuration of each class once, with the requests that use the class."""
    by_class: dict[str, list[str]] = {}
    for _, alternative, _ in chosen:
        if plan.classes[alternative.class_name].spec.config:
            by_class.setdefault(alternative.class_name, []).append(alternative.name)
    return [
        {"source": "FromClass", "requests": list(requests), **_tree(config)}
        for name, requests in by_class.items()
        for config in plan.classes[name].spec.config
    ]


def _claim_config(plan: AllocationPlan, claim: int, chosen: Iterable[ChosenDevice]) -> list[Tree]:
    """Return the configuration of the claim that applies to all requests or to chosen ones."""
    if not plan.claims[claim].config:
        return []
    names = {name for request, alternative, _ in chosen for name in (request.name, alternative.name)}
    return [
        {"source": "FromClaim", **_tree(config)}
        for config in plan.claims[claim].config
        if not config.requests or names.intersection(config.requests)
    ]


def _node_selector(view: NodeView, placed: Iterable[Placed]) -> Tree | None:
    """Return the node selector of an allocation: one node, the combined selectors of all devices, or None for any
    node.
    """
    fields: list[Tree] = []
    expressions: list[Tree] = []
    seen = set()
    for _, at, _ in placed:
        slice_ = view.slice_of(at)
        place: ResourceSliceSpec | Device = slice_.spec
        if slice_.spec.perDeviceNodeSelection:
            place = view.layout.device(at)
        if place.nodeName or view.layout.device(at).bindsToNode:
            return _only(view.node)
        if place.nodeSelector is None or id(place.nodeSelector) in seen:
            continue
        seen.add(id(place.nodeSelector))
        _merge(place.nodeSelector, fields, expressions)
    term = {key: value for key, value in (("matchFields", fields), ("matchExpressions", expressions)) if value}
    return {"nodeSelectorTerms": [term]} if term else None


def _only(node: str) -> Tree:
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}


def _merge(selector: NodeSelector, fields: list[Tree], expressions: list[Tree]) -> None:
    if len(selector.nodeSelectorTerms) > 1:
        raise UnsupportedTerms(len(selector.nodeSelectorTerms))
    for term in selector.nodeSelectorTerms:
        _add(term.matchFields, fields)
        _add(term.matchExpressions, expressions)


def _add(requirements: Iterable[NodeSelectorRequirement], known: list[Tree]) -> None:
    for requirement in requirements:
        tree = _tree(requirement)
        if not any(_same(tree, other) for other in known):
            known.append(tree)


def _same(one: Tree, other: Tree) -> bool:
    return (
        one["key"] == other["key"]
        and one["operator"] == other["operator"]
        and set(one.get("values", ())) == set(other.get("values", ()))
    )
