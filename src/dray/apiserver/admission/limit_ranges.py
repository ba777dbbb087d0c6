"""LimitRange: default resource requests and limits in a namespace, and bounds for them.

Defaults are filled in when a pod is created and listed in an annotation. Violations of bounds are reported together,
up to a maximum number. A namespace can have thousands of limits and a pod a thousand containers, so both steps yield
to other work. Updates of pods are not checked, because their resources are immutable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dray.api.custom.pruning import MOST_DEFAULTS, DefaultsBudget
from dray.api.errors import MOST_ERRORS
from dray.api.quantity import ZERO, Quantity
from dray.api.resources import BY_TYPE
from dray.api.types.core import Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.read.reader import Reader, many
from dray.background.turns import turns

ANNOTATION = "kubernetes.io/limit-ranger"
_RANGES = BY_TYPE[LimitRange]

Quantities = Mapping[str, Quantity]


class LimitRanger(Admission):
    """Applies the LimitRanges of a namespace."""

    name = "LimitRanger"
    types = (Pod, PersistentVolumeClaim)
    operations = ("CREATE", "UPDATE")
    configured_by = (LimitRange,)
    reads = (LimitRange,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._last_change = reader.last_change(_RANGES)
        self._seen = -1
        self._items: dict[str, tuple[LimitRangeItem, ...]] = {}

    def admit(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Fill in default requests and limits of a new pod's containers.

        Returns the work as an awaitable, or None if the request does not create a pod.
        """
        if request.operation != "CREATE" or request.subresource or request.tree is None or not request.concerns(Pod):
            return None
        return turns().run(request.user.name, _fill_in(request.tree, self._in(request.namespace)))

    def validate(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Check a new pod, or a new or updated PersistentVolumeClaim, against the bounds.

        Returns the work as an awaitable, or None for other requests.
        """
        obj = request.object
        if request.subresource or not isinstance(obj, (Pod, PersistentVolumeClaim)):
            return None
        if isinstance(obj, Pod) and request.operation != "CREATE":
            return None
        return self._check(request, obj)

    async def _check(self, request: AdmissionRequest, obj: Pod | PersistentVolumeClaim) -> None:
        """Raise Forbidden with all violated bounds of an object.

        Above a maximum number of bounds, the message ends with "and more".
        """
        found = await turns().run(request.user.name, _faults(obj, self._in(request.namespace)))
        if len(found) > MOST_ERRORS:
            found[MOST_ERRORS:] = ["and more"]
        if found:
            raise request.forbidden(found[0] if len(found) == 1 else f"[{', '.join(found)}]")

    def _in(self, namespace: str) -> tuple[LimitRangeItem, ...]:
        """Return the items of all LimitRanges of a namespace, cached until a LimitRange changes."""
        seen = self._last_change.revision
        if seen != self._seen:
            self._seen = seen
            self._items.clear()
        items = self._items.get(namespace)
        if items is None:
            ranges = many(self._reader, LimitRange, namespace)
            items = self._items[namespace] = tuple(item for found in ranges for item in found.spec.limits or ())
        return items


# Defaults


def _fill_in(tree: dict[str, Any], items: Sequence[LimitRangeItem]) -> Generator[None, None, None]:
    """Fill in the defaults of all items of type Container and note them in an annotation of the pod.

    A generator that yields after each container. Raises TooLarge if the defaults together are too long.
    """
    room = DefaultsBudget(MOST_DEFAULTS)
    for item in items:
        if item.type != "Container":
            continue
        notes: list[str] = []
        for container, word in _containers(tree.get("spec") or {}):
            notes += _fill_container(container, word, item, room)
            yield
        if notes:
            metadata = tree.setdefault("metadata", {})
            text = f"LimitRanger plugin set: {'; '.join(notes)}"
            metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: text}


def _containers(spec: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the containers, then the init containers of a pod spec.

    Each comes with its name in messages: "container" or "init container".
    """
    for name, word in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(name) or ():
            yield container, word


def _fill_container(container: dict[str, Any], word: str, item: LimitRangeItem, room: DefaultsBudget) -> Iterator[str]:
    """Fill in missing requests and limits of a container.

    Yields one message for its requests and one for its limits, each only if something was missing. `word` is
    "container" or "init container". Raises TooLarge if `room` does not suffice.
    """
    resources = container.setdefault("resources", {})
    for field, defaults, what in (("requests", item.defaultRequest, "request"), ("limits", item.default, "limit")):
        given = resources.get(field) or {}
        missing = sorted(defaults.keys() - given.keys())
        if missing:
            room.take(sum(len(key) + len(defaults[key]) for key in missing))
            resources[field] = {**given, **{key: defaults[key] for key in missing}}
            yield f"{', '.join(missing)} {what} for {word} {container.get('name', '')}"


# Limits


class _Asked(NamedTuple):
    """Requests and limits of a container or pod. A PersistentVolumeClaim has only requests."""

    requests: Quantities
    limits: Quantities | None


def _faults(obj: Pod | PersistentVolumeClaim, items: Sequence[LimitRangeItem]) -> Generator[None, None, list[str]]:
    """Return the messages about violated bounds of an object: at most one more than the number that is reported.

    A generator that yields between steps.
    """
    asked: dict[str, Sequence[_Asked]] = {}
    if isinstance(obj, Pod):
        asked = yield from _asked_by_pod(obj)
    else:
        asked["PersistentVolumeClaim"] = (_Asked((yield from _parsed(obj.spec.resources.requests)), None),)
    found: list[str] = []
    for item in items:
        bounds = _Bounds(item)
        for one in asked.get(item.type, ()):
            for fault in bounds.judge(one):
                if fault:
                    found.append(fault)
                if len(found) > MOST_ERRORS:
                    return found
                yield
    return found


def _asked_by_pod(pod: Pod) -> Generator[None, None, dict[str, Sequence[_Asked]]]:
    """Return requests and limits by item type: Container for each container, Pod for all together."""
    ordinary = yield from _asked_by(pod.spec.containers)
    first = yield from _asked_by(pod.spec.initContainers)
    requests = yield from _together([one.requests for one in ordinary], [one.requests for one in first])
    limits = yield from _together([one.limits or {} for one in ordinary], [one.limits or {} for one in first])
    return {"Container": [*ordinary, *first], "Pod": [_Asked(requests, limits)]}


def _asked_by(containers: Sequence[Container]) -> Generator[None, None, list[_Asked]]:
    """Return requests and limits of each container, parsed. A generator that yields after each amount."""
    found: list[_Asked] = []
    for container in containers:
        requests = yield from _parsed(container.resources.requests)
        limits = yield from _parsed(container.resources.limits)
        found.append(_Asked(requests, limits))
    return found


def _parsed(amounts: Mapping[str, str]) -> Generator[None, None, Quantities]:
    """Return amounts as quantities. A generator that yields after each."""
    found: dict[str, Quantity] = {}
    for name, amount in amounts.items():
        found[name] = Quantity.parse(amount)
        yield
    return found


def _together(ordinary: Sequence[Quantities], first: Sequence[Quantities]) -> Generator[None, None, Quantities]:
    """Return the effective resources of a pod: the sum of its containers, or those of an init container if higher."""
    total: dict[str, Quantity] = {}
    for amounts in ordinary:
        for name, amount in amounts.items():
            total[name] = total[name] + amount if name in total else amount
            yield
    for amounts in first:
        for name, amount in amounts.items():
            total[name] = max(total.get(name, ZERO), amount)
            yield
    return total


class _Bounds:
    """Bounds of one item, sorted once for all containers of a pod in the order of messages.

    A bound is parsed only if there is an amount to compare, so the pod's own size limits the cost.
    """

    def __init__(self, item: LimitRangeItem) -> None:
        self._type = item.type
        self._least = sorted(item.min.items())
        self._most = sorted(item.max.items())
        self._ratios = sorted(item.maxLimitRequestRatio.items())

    def judge(self, asked: _Asked) -> Iterator[str]:
        """Yield for each bound a message if it is violated, otherwise ""."""
        requests, limits = asked.requests, asked.limits or {}
        has_limits = asked.limits is not None
        for name, text in self._least:
            fault = _too_little(text, requests.get(name), limits.get(name))
            yield fault and f"minimum {name} usage per {self._type} is {text}{fault}"
        for name, text in self._most:
            fault = _too_much(text, requests.get(name), limits.get(name), has_limits)
            yield fault and f"maximum {name} usage per {self._type} is {text}{fault}"
        for name, text in self._ratios if has_limits else ():
            fault = _ratio(text, requests.get(name, ZERO), limits.get(name, ZERO))
            yield fault and f"{name} max limit to request ratio per {self._type} is {text}, but {fault}"


def _too_little(text: str, request: Quantity | None, limit: Quantity | None) -> str:
    """Return the end of a message if the request is missing, or request or limit is below the minimum; else "".

    `text` is the minimum as a quantity. None means that the object does not give the amount.
    """
    if request is None:
        return ".  No request is specified"
    least = Quantity.parse(text)
    if limit is not None and limit < least:
        return f", but limit is {limit}"
    return f", but request is {request}" if request < least else ""


def _too_much(text: str, request: Quantity | None, limit: Quantity | None, has_limits: bool) -> str:
    """Return the end of a message if the limit is missing, or request or limit is above the maximum; else "".

    `text` is the maximum as a quantity. A missing limit is an error only with `has_limits`; None means that the
    object does not give the amount.
    """
    if has_limits and limit is None:
        return ".  No limit is specified"
    if limit is not None and limit > Quantity.parse(text):
        return f", but limit is {limit}"
    if request is not None and request > Quantity.parse(text):
        return f", but request is {request}"
    return ""


def _ratio(text: str, request: Quantity, limit: Quantity) -> str:
    """Return the end of a message if the ratio of limit to request is too high or undefined, else "".

    `text` is the maximum ratio. A ratio is undefined if request or limit is 0.
    """
    if not request:
        return "no request is specified or request is 0"
    if not limit:
        return "no limit is specified or limit is 0"
    if limit.milli() > request.milli() * Quantity.parse(text).milli() / 1000:
        return f"provided ratio is {limit.milli() / request.milli():f}"
    return ""
