"""From decisions to what is written into claims: devices, configuration with its source, and the nodes that may use it.

A result is a JSON tree, because whoever allocates writes it. Left out: which devices (`search`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dray.allocator.bits import positions
from dray.allocator.feasibility import Grant
from dray.allocator.identity import DeviceId
from dray.allocator.layout import View
from dray.allocator.outcome import Allocated
from dray.allocator.plan import Alternative, Plan, Request
from dray.api.types.core import NodeSelector, NodeSelectorRequirement
from dray.api.types.resource import Device, ResourceSliceSpec

Tree = dict[str, Any]
Chosen = tuple[Request, Alternative, Grant]
Placed = tuple[Alternative, int, DeviceId]


class ResultError(ValueError):
    """An allocation cannot be written down."""


def allocated(plan: Plan, view: View, grants: Sequence[Grant]) -> Allocated:
    """The outcome for one node, claim by claim."""
    by_claim: list[list[Chosen]] = [[] for _ in plan.claims]
    for request, grant in zip(plan.requests, grants, strict=True):
        by_claim[request.claim].append((request, request.alternatives[grant.choice], grant))
    results, devices, alternatives = [], [], []
    for claim, chosen in enumerate(by_claim):
        placed = [
            (alternative, at, view.id_of(at)) for _, alternative, grant in chosen for at in positions(grant.devices)
        ]
        results.append(_result(plan, claim, view, chosen, placed))
        devices.append(tuple([device for alternative, _, device in placed if not alternative.admin]))
        alternatives.append(tuple([grant.choice if request.prioritized else None for request, _, grant in chosen]))
    return Allocated(tuple(results), tuple(devices), tuple(alternatives))


def _tree(wire: object) -> Any:
    """A wire object as plain JSON, lists included."""
    return msgspec.json.decode(msgspec.json.encode(wire))


def _result(plan: Plan, claim: int, view: View, chosen: Sequence[Chosen], placed: Sequence[Placed]) -> Tree:
    devices: Tree = {}
    if placed:
        devices["results"] = [_device(alternative, device) for alternative, _, device in placed]
    if config := _config(plan, claim, chosen):
        devices["config"] = config
    result: Tree = {"devices": devices}
    selector = _node_selector(view, placed)
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _config(plan: Plan, claim: int, chosen: Sequence[Chosen]) -> list[Tree]:
    config = [*_class_config(plan, chosen), *_claim_config(plan, claim, chosen)]
    for entry in config:
        named = entry.get("requests", ())
        if named and all(request.name in named or alternative.name in named for request, alternative, _ in chosen):
            del entry["requests"]  # none named means all
    return config


def _device(alternative: Alternative, device: DeviceId) -> Tree:
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
    return entry


def _class_config(plan: Plan, chosen: Iterable[Chosen]) -> list[Tree]:
    """Each class once, with the requests that use it."""
    by_class: dict[str, list[str]] = {}
    for _, alternative, _ in chosen:
        if plan.classes[alternative.class_name].spec.config:
            by_class.setdefault(alternative.class_name, []).append(alternative.name)
    return [
        {"source": "FromClass", "requests": list(requests), **_tree(config)}
        for name, requests in by_class.items()
        for config in plan.classes[name].spec.config
    ]


def _claim_config(plan: Plan, claim: int, chosen: Iterable[Chosen]) -> list[Tree]:
    """What the claim says for all, for a request, or for an alternative that was chosen."""
    if not plan.claims[claim].config:
        return []
    names = {name for request, alternative, _ in chosen for name in (request.name, alternative.name)}
    return [
        {"source": "FromClaim", **_tree(config)}
        for config in plan.claims[claim].config
        if not config.requests or names.intersection(config.requests)
    ]


def _node_selector(view: View, placed: Iterable[Placed]) -> Tree | None:
    """One node for a device that is local to it; else what all devices ask of a node; None for any node."""
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
        raise ResultError(f"unsupported ResourceSlice.NodeSelector with {len(selector.nodeSelectorTerms)} terms")
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
