"""Rules for nodes, configuration, events and bindings that cannot be expressed as steps."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from dray.api import names
from dray.api.addresses import BAD_CIDR, is_network
from dray.api.constraints import checked
from dray.api.errors import duplicate, forbidden, invalid, required, too_long, unsupported
from dray.api.paths import METADATA, Path
from dray.api.schema import CORE
from dray.api.types import core
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, named
from dray.api.written import as_go

DATA_MAX = 1024 * 1024
_TOKEN_TYPE = "kubernetes.io/service-account-token"
_TOKEN_ACCOUNT = "kubernetes.io/service-account.name"
_TYPED_SECRETS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_EVENT_TYPES = ("Normal", "Warning")
_EVENT_TEXT_MAX = 1024


# Node


def taints(node: core.Node, _: Path | None) -> Errors:
    """Yield errors in node taints, including duplicates by key and effect."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(node.spec.taints):
        here = METADATA / "taints" / index  # the same path as in Kubernetes
        yield from checked(f"{CORE}Taint", taint, here)
        if (taint.key, taint.effect) in seen:
            yield duplicate(here, as_go(taint), "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))


def pod_ranges(ranges: tuple[str, ...], path: Path) -> Errors:
    """Yield errors unless the podCIDRs of a node are valid networks, at most one per IP family."""
    for index, text in enumerate(ranges):
        if not is_network(text):
            yield invalid(path / index, text, BAD_CIDR)
    if len(ranges) > 1 and (len(ranges) > 2 or len({":" in text for text in ranges}) < 2):
        yield invalid(path, ranges, "may specify no more than one CIDR for each IP family")


# ConfigMap and Secret


def config_map(value: core.ConfigMap, _: Path | None) -> Errors:
    """Yield errors in the keys and the total size of a ConfigMap."""
    size = 0
    for key, text in value.data.items():
        yield from named(key, Path("data") % key, names.config_key)
        if key in value.binaryData:
            yield invalid(Path("data") % key, key, "duplicate of key present in binaryData")
        size += len(text.encode())
    for key, text in value.binaryData.items():
        yield from named(key, Path("binaryData") % key, names.config_key)
        size += len(text) * 3 // 4
    if size > DATA_MAX:
        yield too_long("", DATA_MAX)


def secret(value: core.Secret, _: Path | None) -> Errors:
    """Yield errors in the keys and size of a Secret, or if keys required by its type are missing."""
    for key in value.data:
        yield from named(key, Path("data") % key, names.config_key)
    if sum(len(base64.b64decode(text)) for text in value.data.values()) > DATA_MAX:
        yield too_long("data", DATA_MAX)
    if value.type == _TOKEN_TYPE and not value.metadata.annotations.get(_TOKEN_ACCOUNT):
        yield required(METADATA / "annotations" % _TOKEN_ACCOUNT)
    for key in _TYPED_SECRETS.get(value.type, ()):
        if key not in value.data:
            yield required(Path("data") % key)
    if value.type == "kubernetes.io/basic-auth" and not {"username", "password"} & value.data.keys():
        for key in ("username", "password"):
            yield required(Path("data") % key)


def immutable_data(value: core.ConfigMap | core.Secret, old: core.ConfigMap | core.Secret, _: Path | None) -> Errors:
    """Yield errors if an update changes the data of an immutable ConfigMap or Secret, or makes it mutable."""
    if not old.immutable:
        return
    if not value.immutable:
        yield forbidden(Path("immutable"), "field is immutable when `immutable` is set")
    for field in ("data", "binaryData"):
        if getattr(value, field, None) != getattr(old, field, None):
            yield forbidden(Path(field), "field is immutable when `immutable` is set")


# Event and Binding


def create_event(event: core.Event, context: Context) -> Errors:
    """Yield an error if a new event is in another namespace than its object."""
    about, path = event.involvedObject.namespace, Path("involvedObject") / "namespace"
    if about != event.metadata.namespace and not (not about and event.metadata.namespace == "default"):
        yield invalid(path, about, "does not match event.namespace")


def create_new_event(event: core.Event, context: Context) -> Errors:
    """Yield errors in a new events.k8s.io event. It is stored as a core event, but errors have the new field names."""
    yield from create_event(event, context)
    if not event.eventTime:
        yield required("eventTime")
    needed = {
        "reportingController": event.reportingComponent,
        "reportingInstance": event.reportingInstance,
        "action": event.action,
        "reason": event.reason,
    }
    for field, text in needed.items():
        if not text:
            yield required(field)
    if event.type not in _EVENT_TYPES:
        yield invalid("type", event.type, 'has invalid value: must be "Normal" or "Warning"')
    if len(event.message.encode()) > _EVENT_TEXT_MAX:
        yield invalid("note", "", "can have at most 1024 characters")


def binding_target(target: core.ObjectReference, path: Path) -> Errors:
    """Yield errors unless the target of a Binding is a named node."""
    if target.kind not in ("", "Node"):
        yield unsupported(path / "kind", target.kind, ("Node", "<empty>"))
    if not target.name:
        yield required(path / "name")
