"""LimitRange: what containers, pods and volume claims of a namespace ask for when they say nothing, and at most.

Defaults are filled in when a pod is created and noted in an annotation; what is outside of the limits is refused with
all reasons at once. Left out: changes of pods, whose resources are settled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dray.api.quantity import Quantity
from dray.api.resources import BY_TYPE
from dray.api.types.core import Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.read.reader import Reader, many

ANNOTATION = "kubernetes.io/limit-ranger"
ZERO = Quantity.parse("0")
_RANGES = BY_TYPE[LimitRange]

Amounts = Mapping[str, Quantity]


class LimitRanger(Admission):
    """Applies the limit ranges of a namespace."""

    name = "LimitRanger"
    types = (Pod, PersistentVolumeClaim)
    operations = ("CREATE", "UPDATE")
    configured_by = (LimitRange,)
    reads = (LimitRange,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._seen = -1
        self._items: dict[str, tuple[LimitRangeItem, ...]] = {}

    def admit(self, request: AdmissionRequest) -> None:
        if request.operation != "CREATE" or request.subresource or request.tree is None or not request.concerns(Pod):
            return
        for item in self._in(request.namespace):
            if item.type == "Container":
                _fill_in(request.tree, item)

    def validate(self, request: AdmissionRequest) -> None:
        if request.subresource or request.object is None:
            return
        found: list[str] = []
        for item in self._in(request.namespace):
            if isinstance(request.object, Pod) and request.operation == "CREATE":
                found += _pod(request.object, item)
            elif isinstance(request.object, PersistentVolumeClaim) and item.type == "PersistentVolumeClaim":
                found += _limits(item, _parsed(request.object.spec.resources.requests), None)
        if found:
            raise request.forbidden(found[0] if len(found) == 1 else f"[{', '.join(found)}]")

    def _in(self, namespace: str) -> tuple[LimitRangeItem, ...]:
        seen = self._reader.revision(_RANGES)
        if seen != self._seen:
            self._seen = seen
            self._items.clear()
        items = self._items.get(namespace)
        if items is None:
            ranges = many(self._reader, LimitRange, namespace)
            items = self._items[namespace] = tuple(item for found in ranges for item in found.spec.limits or ())
        return items


# Defaults


def _fill_in(tree: dict[str, Any], item: LimitRangeItem) -> None:
    spec = tree.get("spec") or {}
    notes: list[str] = []
    for name, word in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(name) or ():
            resources = container.setdefault("resources", {})
            for field, defaults, what in (
                ("requests", item.defaultRequest, "request"),
                ("limits", item.default, "limit"),
            ):
                given = resources.get(field) or {}
                missing = sorted(defaults.keys() - given.keys())
                if missing:
                    resources[field] = {**given, **{key: defaults[key] for key in missing}}
                    notes.append(f"{', '.join(missing)} {what} for {word} {container.get('name', '')}")
    if notes:
        metadata = tree.setdefault("metadata", {})
        text = f"LimitRanger plugin set: {'; '.join(notes)}"
        metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: text}


# Limits


def _pod(pod: Pod, item: LimitRangeItem) -> Iterator[str]:
    every = (*pod.spec.containers, *pod.spec.initContainers)
    if item.type == "Container":
        for container in every:
            resources = container.resources
            yield from _limits(item, _parsed(resources.requests), _parsed(resources.limits))
    elif item.type == "Pod":
        yield from _limits(item, _together(pod, "requests"), _together(pod, "limits"))


def _parsed(amounts: Mapping[str, str]) -> Amounts:
    return {name: Quantity.parse(amount) for name, amount in amounts.items()}


def _together(pod: Pod, field: str) -> Amounts:
    """What all containers have at once: the sum, or one init container if that has more."""
    total: dict[str, Quantity] = {}
    for amounts in _amounts(pod.spec.containers, field):
        for name, amount in amounts.items():
            total[name] = total[name] + amount if name in total else amount
    for amounts in _amounts(pod.spec.initContainers, field):
        for name, amount in amounts.items():
            total[name] = max(total.get(name, ZERO), amount)
    return total


def _amounts(containers: Sequence[Container], field: str) -> Iterator[Amounts]:
    return (_parsed(getattr(container.resources, field)) for container in containers)


def _limits(item: LimitRangeItem, requests: Amounts, limits: Amounts | None) -> Iterator[str]:
    """What is wrong with amounts; a claim for a volume has no limits, only a request."""
    for name, text in sorted(item.min.items()):
        yield from _too_little(
            f"minimum {name} usage per {item.type} is {text}", Quantity.parse(text), name, requests, limits
        )
    for name, text in sorted(item.max.items()):
        yield from _too_much(
            f"maximum {name} usage per {item.type} is {text}", Quantity.parse(text), name, requests, limits
        )
    for name, text in sorted(item.maxLimitRequestRatio.items()):
        if limits is not None:
            yield from _ratio(
                f"{name} max limit to request ratio per {item.type} is {text}", text, name, requests, limits
            )


def _too_little(rule: str, least: Quantity, name: str, requests: Amounts, limits: Amounts | None) -> Iterator[str]:
    request, limit = requests.get(name), (limits or {}).get(name)
    if request is None:
        yield f"{rule}.  No request is specified"
    elif limit is not None and limit < least:
        yield f"{rule}, but limit is {limit}"
    elif request < least:
        yield f"{rule}, but request is {request}"


def _too_much(rule: str, most: Quantity, name: str, requests: Amounts, limits: Amounts | None) -> Iterator[str]:
    request, limit = requests.get(name), (limits or {}).get(name)
    if limits is not None and limit is None:
        yield f"{rule}.  No limit is specified"
    elif limit is not None and limit > most:
        yield f"{rule}, but limit is {limit}"
    elif request is not None and request > most:
        yield f"{rule}, but request is {request}"


def _ratio(rule: str, text: str, name: str, requests: Amounts, limits: Amounts) -> Iterator[str]:
    request, limit = requests.get(name, ZERO), limits.get(name, ZERO)
    if not request:
        yield f"{rule}, but no request is specified or request is 0"
    elif not limit:
        yield f"{rule}, but no limit is specified or limit is 0"
    elif limit.milli() > request.milli() * Quantity.parse(text).milli() / 1000:
        yield f"{rule}, but provided ratio is {limit.milli() / request.milli():f}"
