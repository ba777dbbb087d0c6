"""Defaults of resource.k8s.io: what a request asks for, and since when a device is tainted."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.wire import Tree

_POOL_LIMIT = 100


def claim(tree: Tree) -> None:
    _claim_spec(tree.setdefault("spec", {}))
    allocation = (tree.get("status") or {}).get("allocation") or {}
    for result in allocation.get("devices", {}).get("results") or ():
        _tolerations(result)


def claim_template(tree: Tree) -> None:
    _claim_spec(tree.setdefault("spec", {}).setdefault("spec", {}))


def _claim_spec(spec: Tree) -> None:
    for request in spec.get("devices", {}).get("requests") or ():
        if request.get("exactly") is not None:
            _request(request["exactly"])
        for alternative in request.get("firstAvailable") or ():
            _request(alternative)


def _request(request: Tree) -> None:
    mode = request.get("allocationMode") or "ExactCount"
    request["allocationMode"] = mode
    if mode == "ExactCount" and not request.get("count"):
        request["count"] = 1
    _tolerations(request)


def _tolerations(holder: Tree) -> None:
    for toleration in holder.get("tolerations") or ():
        toleration["operator"] = toleration.get("operator") or "Equal"


def pool_status_request(tree: Tree) -> None:
    tree.setdefault("spec", {}).setdefault("limit", _POOL_LIMIT)


def slice_(tree: Tree, now: str) -> None:
    spec = tree.setdefault("spec", {})
    for device in spec.get("devices") or ():
        _taints(device.get("taints") or (), now)
        _amounts(device.get("capacity"))
        for consumption in device.get("consumesCounters") or ():
            _amounts(consumption.get("counters"))
    for counters in spec.get("sharedCounters") or ():
        _amounts(counters.get("counters"))


def _amounts(items: Tree | None) -> None:
    """An amount that is not said is none."""
    for item in (items or {}).values():
        item["value"] = item.get("value") or "0"


def taint_rule(tree: Tree, now: str) -> None:
    _taints([tree.setdefault("spec", {}).setdefault("taint", {})], now)


def _taints(taints: Iterable[Tree], now: str) -> None:
    for taint in taints:
        taint["timeAdded"] = taint.get("timeAdded") or now
