"""Field selectors: conditions on the few fields that each resource lets itself be selected by.

`metadata.name` and `metadata.namespace` work for every resource. A field that a resource does not offer is refused when
the selector is read, so matching never fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import msgspec

from dray.api.custom.kinds import selected_text
from dray.api.errors import BadRequest
from dray.api.resources import Resource
from dray.api.types import batch, core, meta, resource

Reader = Callable[[Any], str]

_ESCAPED = re.compile(r"\\([\\,=])")
_TERM = re.compile(r"((?:[^\\,]|\\.)*)(?:,|$)")
_OPERATOR = re.compile(r"((?:[^\\=!]|\\.|!(?!=))*)(!=|==|=)(.*)", re.DOTALL)


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _pod_ips(pod: core.Pod) -> str:
    return ",".join(ip.ip for ip in pod.status.podIPs)


def _involved(field: str) -> Reader:
    return lambda event: str(getattr(event.involvedObject, field))


def _successful(job: batch.Job) -> str:
    return str(job.status.succeeded)


def _slice_node(slice_: resource.ResourceSlice) -> str:
    return slice_.spec.nodeName or ""


_EVENT_OBJECT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_CORE_EVENT: Mapping[str, Reader] = {
    **{f"involvedObject.{field}": _involved(field) for field in _EVENT_OBJECT},
    "reason": lambda event: event.reason,
    "reportingComponent": lambda event: event.reportingComponent or event.source.component,
    "source": lambda event: event.source.component or event.reportingComponent,
    "type": lambda event: event.type,
}
# Events are stored as core events, whichever group asks.
_NEW_EVENT: Mapping[str, Reader] = {
    **{f"regarding.{field}": _involved(field) for field in _EVENT_OBJECT},
    "reason": _CORE_EVENT["reason"],
    "reportingController": _CORE_EVENT["reportingComponent"],
    "type": _CORE_EVENT["type"],
}
SELECTABLE: Mapping[tuple[str, str], Mapping[str, Reader]] = {
    ("", "pods"): {
        "spec.nodeName": lambda pod: pod.spec.nodeName,
        "spec.restartPolicy": lambda pod: pod.spec.restartPolicy,
        "spec.schedulerName": lambda pod: pod.spec.schedulerName,
        "spec.serviceAccountName": lambda pod: pod.spec.serviceAccountName,
        "spec.hostNetwork": lambda pod: _bool(pod.spec.hostNetwork),
        "status.phase": lambda pod: pod.status.phase,
        "status.podIP": lambda pod: pod.status.podIP,
        "status.podIPs": _pod_ips,
        "status.nominatedNodeName": lambda pod: pod.status.nominatedNodeName,
    },
    ("", "nodes"): {"spec.unschedulable": lambda node: _bool(node.spec.unschedulable)},
    ("", "namespaces"): {"status.phase": lambda namespace: namespace.status.phase, "name": lambda ns: ns.metadata.name},
    ("", "secrets"): {"type": lambda secret: secret.type},
    ("", "services"): {
        "spec.clusterIP": lambda service: service.spec.clusterIP,
        "spec.type": lambda service: service.spec.type,
    },
    ("", "events"): _CORE_EVENT,
    ("events.k8s.io", "events"): _NEW_EVENT,
    ("batch", "jobs"): {"status.successful": _successful},
    ("apps", "replicasets"): {"status.replicas": lambda rs: str(rs.status.replicas)},
    ("", "replicationcontrollers"): {"status.replicas": lambda rc: str(rc.status.replicas)},
    ("certificates.k8s.io", "certificatesigningrequests"): {"spec.signerName": lambda csr: csr.spec.signerName},
    ("resource.k8s.io", "resourceslices"): {
        "spec.nodeName": _slice_node,
        "spec.driver": lambda slice_: slice_.spec.driver,
        "spec.pool.name": lambda slice_: slice_.spec.pool.name,
    },
}


def _metadata(field: Literal["name", "namespace"]) -> Reader:
    def read(object_: Any) -> str:
        metadata: meta.ObjectMeta = object_.metadata
        return getattr(metadata, field)  # type: ignore[no-any-return]  # both fields are text

    return read


_EVERYWHERE: Mapping[str, Reader] = {"metadata.name": _metadata("name"), "metadata.namespace": _metadata("namespace")}


class FieldSelector(msgspec.Struct, frozen=True):
    """Conditions that must all hold: field, wanted value, and whether equal or not."""

    conditions: tuple[tuple[str, str, bool], ...] = ()
    readers: tuple[Reader, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.conditions

    def matches(self, object_: Any) -> bool:
        for read, (_, value, equal) in zip(self.readers, self.conditions, strict=True):
            if (read(object_) == value) is not equal:
                return False
        return True

    def exact(self, field: str) -> str | None:
        """The value that a field must have, if the selector says so: for reads that need not look at everything."""
        return next((value for name, value, equal in self.conditions if equal and name == field), None)


def parse_fields(resource: Resource, text: str) -> FieldSelector:
    """Read a selector for a resource; raises BadRequest for bad syntax and fields that are not offered."""
    conditions: list[tuple[str, str, bool]] = []
    for term in _terms(text):
        match = _OPERATOR.fullmatch(term)
        if match is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        conditions.append((field, _unescape(value, text), operator != "!="))
    readers = {**_EVERYWHERE, **_offered(resource)}
    for field, _, _ in conditions:
        if field not in readers:
            raise BadRequest(_unsupported(resource, field))
    return FieldSelector(tuple(conditions), tuple(readers[field] for field, _, _ in conditions))


def _offered(resource: Resource) -> Mapping[str, Reader]:
    if resource.custom is None:
        return SELECTABLE.get((resource.group, resource.plural), {})
    served = resource.custom.versions
    paths = {name: path for version in served for name, path in resource.custom.selectable(version).items()}
    return {name: partial(selected_text, path) for name, path in paths.items()}


def _terms(text: str) -> list[str]:
    terms = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{text[position:]}'")
        terms.append(match[1])
        position = match.end()
    return [term for term in terms if term]


def _unescape(value: str, text: str) -> str:
    clean = _ESCAPED.sub(r"\1", value)
    if "\\" in _ESCAPED.sub("", value) or re.search(r"(?<!\\)=", _ESCAPED.sub("", value)):
        raise BadRequest(f"invalid selector: '{text}'; can't understand '{value}'")
    return clean


def _unsupported(resource: Resource, field: str) -> str:
    if resource.group == "resource.k8s.io" and resource.plural == "resourceslices":
        return f"field label not supported for {resource.api_version()}, Kind={resource.kind}: {field}"
    if (resource.group, resource.plural) == ("batch", "jobs"):
        return f'field label "{field}" not supported for Job'
    if resource.custom is not None or (resource.group, resource.plural) in SELECTABLE:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
