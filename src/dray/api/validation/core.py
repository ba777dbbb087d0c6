"""The rest of the core group: namespaces, nodes, configuration, quotas, events, bindings, leases."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required, too_long, unsupported
from dray.api.paths import METADATA, SPEC, Path
from dray.api.quantity import Quantity
from dray.api.types import coordination, core
from dray.api.validation.addresses import BAD_CIDR, is_network
from dray.api.validation.containers import is_whole
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, at_least, each, named, required_one_of, unchanged
from dray.api.validation.metadata import finalizer_name
from dray.api.validation.placement import TAINT_EFFECTS
from dray.api.validation.quotas import quota_scopes

DATA_MAX = 1024 * 1024
_TOKEN_TYPE = "kubernetes.io/service-account-token"
_TOKEN_ACCOUNT = "kubernetes.io/service-account.name"
_TYPED_SECRETS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_QUOTA_RESOURCES = frozenset(
    {
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_INTEGER_QUOTAS = (
    *("pods", "services", "secrets", "configmaps", "resourcequotas", "persistentvolumeclaims"),
    *("replicationcontrollers", "services.nodeports", "services.loadbalancers"),
)
_EVENT_TYPES = ("Normal", "Warning")
_EVENT_TEXT_MAX = 1024


# Namespace


def check_namespace(namespace: core.Namespace, context: Context) -> Errors:
    yield from each(namespace.spec.finalizers, SPEC / "finalizers", finalizer_name)


# Node


def create_node(node: core.Node, context: Context) -> Errors:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(node.spec.taints):
        here = METADATA / "taints" / index  # as Kubernetes has it
        yield from named(taint.key, here / "key", names.qualified_name)
        yield from named(taint.value, here / "value", names.label_value)
        yield from required_one_of(taint.effect, TAINT_EFFECTS, here / "effect")
        if (taint.key, taint.effect) in seen:
            yield duplicate(here, taint)
        seen.add((taint.key, taint.effect))
    yield from _pod_ranges(node.spec.podCIDRs, SPEC / "podCIDRs")


def _pod_ranges(ranges: tuple[str, ...], path: Path) -> Errors:
    for index, text in enumerate(ranges):
        if not is_network(text):
            yield invalid(path / index, text, BAD_CIDR)
    if len(ranges) > 1 and (len(ranges) > 2 or len({":" in text for text in ranges}) < 2):
        yield invalid(path, list(ranges), "may specify no more than one CIDR for each IP family")


def update_node(node: core.Node, old: core.Node, context: Context) -> Errors:
    yield from create_node(node, context)
    for field in ("podCIDR", "podCIDRs", "providerID"):
        before, now = getattr(old.spec, field), getattr(node.spec, field)
        if before and before != now:
            text = 'node updates may not change podCIDR except from "" to valid'
            if field == "providerID":
                text = 'node updates may not change providerID except from "" to valid'
            yield forbidden(SPEC / field, text)


# ConfigMap and Secret


def create_config_map(config_map: core.ConfigMap, context: Context) -> Errors:
    size = 0
    for key, text in config_map.data.items():
        yield from named(key, Path("data") % key, names.config_key)
        if key in config_map.binaryData:
            yield invalid(Path("data") % key, key, "duplicate of key present in binaryData")
        size += len(text.encode())
    for key, text in config_map.binaryData.items():
        yield from named(key, Path("binaryData") % key, names.config_key)
        size += len(text) * 3 // 4
    if size > DATA_MAX:
        yield too_long("", DATA_MAX)


def update_config_map(config_map: core.ConfigMap, old: core.ConfigMap, context: Context) -> Errors:
    if old.immutable:
        yield from _still_immutable(config_map.immutable)
        for field in ("data", "binaryData"):
            if getattr(config_map, field) != getattr(old, field):
                yield forbidden(Path(field), "field is immutable when `immutable` is set")
    yield from create_config_map(config_map, context)


def create_secret(secret: core.Secret, context: Context) -> Errors:
    for key in secret.data:
        yield from named(key, Path("data") % key, names.config_key)
    if sum(len(base64.b64decode(text)) for text in secret.data.values()) > DATA_MAX:
        yield too_long("data", DATA_MAX)
    if secret.type == _TOKEN_TYPE and not secret.metadata.annotations.get(_TOKEN_ACCOUNT):
        yield required(METADATA / "annotations" % _TOKEN_ACCOUNT)
    for key in _TYPED_SECRETS.get(secret.type, ()):
        if key not in secret.data:
            yield required(Path("data") % key)
    if secret.type == "kubernetes.io/basic-auth" and not {"username", "password"} & secret.data.keys():
        for key in ("username", "password"):
            yield required(Path("data") % key)


def update_secret(secret: core.Secret, old: core.Secret, context: Context) -> Errors:
    if old.immutable:
        yield from _still_immutable(secret.immutable)
        if secret.data != old.data:
            yield forbidden(Path("data"), "field is immutable when `immutable` is set")
    yield from create_secret(secret, context)


def _still_immutable(immutable: bool | None) -> Errors:
    if not immutable:
        yield forbidden(Path("immutable"), "field is immutable when `immutable` is set")


# ResourceQuota


def create_quota(quota: core.ResourceQuota, context: Context) -> Errors:
    yield from _quota_amounts(quota.spec)
    yield from quota_scopes(quota.spec)


def update_quota(quota: core.ResourceQuota, old: core.ResourceQuota, context: Context) -> Errors:
    yield from create_quota(quota, context)
    yield from unchanged(quota.spec.scopes, old.spec.scopes, SPEC / "scopes", list(quota.spec.scopes))


def _quota_amounts(spec: core.ResourceQuotaSpec) -> Errors:
    for name, amount in spec.hard.items():
        path = SPEC / "hard" % name
        yield from named(name, path, names.qualified_name)
        if (
            "/" not in name
            and name not in _QUOTA_RESOURCES
            and not name.startswith(("hugepages-", "requests.hugepages-"))
        ):
            yield invalid(path, name, "must be a standard resource type or fully qualified")
            yield invalid(path, name, "must be a standard resource for quota")
        quantity = Quantity.parse(amount)
        if quantity.sign < 0:
            yield invalid(path, amount, "must be greater than or equal to 0")
        if (name in _INTEGER_QUOTAS or is_whole(name)) and not quantity.is_whole():
            yield invalid(path, amount, "must be an integer")


# Lease


def check_lease(lease: coordination.Lease, context: Context) -> Errors:
    spec = lease.spec
    if spec.leaseDurationSeconds is not None and spec.leaseDurationSeconds <= 0:
        yield invalid(SPEC / "leaseDurationSeconds", spec.leaseDurationSeconds, "must be greater than 0")
    yield from at_least(spec.leaseTransitions, 0, SPEC / "leaseTransitions")
    if spec.holderIdentity == "":
        yield invalid(SPEC / "holderIdentity", "", "must not be empty")


# Event and Binding


def create_event(event: core.Event, context: Context) -> Errors:
    about, path = event.involvedObject.namespace, Path("involvedObject") / "namespace"
    if about != event.metadata.namespace and not (not about and event.metadata.namespace == "default"):
        yield invalid(path, about, "does not match event.namespace")


def create_new_event(event: core.Event, context: Context) -> Errors:
    """An event of events.k8s.io, which says more; it is stored as a core event, but its fields keep their names."""
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


def create_binding(binding: core.Binding, context: Context) -> Errors:
    path = Path("target")
    if binding.target.kind not in ("", "Node"):
        yield unsupported(path / "kind", binding.target.kind, ("Node", "<empty>"))
    if not binding.target.name:
        yield required(path / "name")
