"""What clients are told about objects that are accepted all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dray.api.names import is_owned_finalizer
from dray.api.quoting import quote
from dray.api.resources import DRA, Resource
from dray.api.strategy.pod_warnings import pod_warnings
from dray.api.types import core, node
from dray.api.types import resource as types
from dray.api.wire import Wire

_POD_SECURITY = "pod-security.kubernetes.io/"
_UNUSED = "is stored, but no part of dray acts on it"


def _slice(slice_: types.ResourceSlice) -> Iterator[str]:
    driver = slice_.spec.driver
    if driver != driver.lower():
        yield f"spec.driver: driver names should be lowercase; {quote(driver)} contains uppercase characters"


def _runtime_class(class_: node.RuntimeClass) -> Iterator[str]:
    """Whoever wants another runtime may want what it keeps containers from."""
    yield f"handler: {quote(class_.handler)} {_UNUSED}"


def _pod(pod: core.Pod) -> Iterator[str]:
    """Yields what is odd about a pod, and what no node does: nodes restart one container at a time."""
    yield from pod_warnings(pod.spec, "spec")
    for field, containers in (("initContainers", pod.spec.initContainers), ("containers", pod.spec.containers)):
        for at, container in enumerate(containers):
            for number, rule in enumerate(container.restartPolicyRules):
                if rule.action == "RestartAllContainers":
                    path = f"spec.{field}[{at}].restartPolicyRules[{number}].action"
                    yield f"{path}: {quote(rule.action)} {_UNUSED}"


def _finalizers(object_: Any, old: Any) -> list[str]:
    """Finalizers of custom objects may be called anything, and two of a name would be taken for one."""
    before = old.metadata.finalizers if old is not None else ()
    added = sorted(set(object_.metadata.finalizers) - set(before))
    text = "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts"
    return [
        f"metadata.finalizers: {quote(finalizer)}: {text} with other finalizer writers"
        for finalizer in added
        if not is_owned_finalizer(finalizer)
    ]


def _pod_security(object_: Any, old: Any) -> list[str]:
    """Pod Security levels that were set or changed: whoever sets one relies on it."""
    before = old.metadata.labels if old is not None else {}
    return [
        f"metadata.labels: {quote(key)} is not enforced: dray has no Pod Security admission"
        for key, value in object_.metadata.labels.items()
        if key.startswith(_POD_SECURITY) and before.get(key) != value
    ]


_WARNINGS: Mapping[tuple[str, str], Callable[[Any], Iterator[str]]] = {
    (DRA, "ResourceSlice"): _slice,
    ("node.k8s.io", "RuntimeClass"): _runtime_class,
    ("", "Pod"): _pod,
}


def unused(resource: Resource) -> list[str]:
    """What the author of a new object must know: that nothing will come of it."""
    if not resource.inert:
        return []
    return [f"{resource.api_version()} {resource.kind} {_UNUSED}"]


def warnings(resource: Resource, object_: Wire, old: Wire | None = None) -> list[str]:
    """The warnings about a written object; `old` is the one that it replaces."""
    if resource.custom is not None:
        return _finalizers(object_, old)
    if (resource.group, resource.kind) == ("", "Namespace"):
        return _pod_security(object_, old)
    found = _WARNINGS.get((resource.group, resource.kind))
    return [] if found is None else list(found(object_))
