"""Validation of containers: names, images, ports, environment, resources, mounts and probes.

Commonly used fields are validated as in Kubernetes. Rarely used ones (seccomp, resize policies) are accepted without
checks, because dray does not act on them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from dray.api import names
from dray.api.constraints import checked
from dray.api.constraints.formats import descending
from dray.api.errors import duplicate, forbidden, invalid, not_found_value, required, too_many, unsupported
from dray.api.paths import Path
from dray.api.quantity import Quantity
from dray.api.resource_names import is_valid, may_overcommit, resource
from dray.api.rules import Errors, named, required_one_of
from dray.api.schema import CORE
from dray.api.types import core
from dray.api.validation.probes import PROBES
from dray.api.validation.security import propagation

PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RESTART_RULES_MOST = 20  # the limit of Kubernetes
_LASTING = (*PROBES, "lifecycle", "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules")
_NOTHING = core.EphemeralContainer()
_ORDINARY = frozenset({"cpu", "memory"})
_NOT_EPHEMERAL = "cannot be set for an Ephemeral Container"
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


class PodParts(NamedTuple):
    """Parts of a pod that its containers refer to."""

    claims: Mapping[str, core.PodResourceClaim]
    volumes: Mapping[str, core.Volume]
    host_network: bool


def init_container(value: core.Container, path: Path) -> Errors:
    """Yield errors if an ordinary init container has fields that only sidecars can have."""
    if value.restartPolicy == "Always":
        return
    for name in (*PROBES, "lifecycle"):
        if getattr(value, name) is not None:
            yield forbidden(path / name, "may not be set for init containers without restartPolicy=Always")


def ephemeral_container(value: core.EphemeralContainer, path: Path, targets: Container[str]) -> Errors:
    """Yield errors if an ephemeral container has fields that only regular containers can have, or an unknown target."""
    if value.targetContainerName and value.targetContainerName not in targets:
        yield not_found_value(path / "targetContainerName", value.targetContainerName)
    for name in _LASTING:
        if getattr(value, name) != getattr(_NOTHING, name):
            yield forbidden(path / name, _NOT_EPHEMERAL)
    for index, mount in enumerate(value.volumeMounts):
        for name in ("subPath", "subPathExpr"):
            if getattr(mount, name):
                yield forbidden(path / "volumeMounts" / index / name, _NOT_EPHEMERAL)


def restarts(value: core.Container, path: Path) -> Errors:
    """Yield errors in the restart policy and restart rules of a container."""
    if value.restartPolicy is not None and value.restartPolicy not in _RESTART_POLICIES:
        yield unsupported(path / "restartPolicy", value.restartPolicy, _RESTART_POLICIES)
    rules = value.restartPolicyRules
    if rules and value.restartPolicy is None:
        yield required(path / "restartPolicy", "must specify restartPolicy when restart rules are used")
    if len(rules) > _RESTART_RULES_MOST:
        yield too_many(path / "restartPolicyRules", len(rules), _RESTART_RULES_MOST)
    for index, rule in enumerate(rules):
        yield from checked(f"{CORE}ContainerRestartRule", rule, path / "restartPolicyRules" / index)


def ports(items: tuple[core.ContainerPort, ...], _: object, path: Path, parts: PodParts) -> Errors:
    """Yield errors in container ports, including duplicate names and host ports that conflict with hostNetwork."""
    seen: set[str] = set()
    for index, port in enumerate(items):
        here = path / index
        if port.name:
            yield from named(port.name, here / "name", names.port_name)
            if port.name in seen:
                yield duplicate(here / "name", port.name)
            seen.add(port.name)
        if port.containerPort == 0:
            yield required(here / "containerPort")
        else:
            yield from named(port.containerPort, here / "containerPort", names.port_number)
        if port.hostPort:
            yield from named(port.hostPort, here / "hostPort", names.port_number)
        if parts.host_network and port.hostPort != port.containerPort:
            text = "must match `containerPort` when `hostNetwork` is true"
            yield invalid(here / "hostPort", port.hostPort, text)
        if port.protocol not in PROTOCOLS:
            yield from required_one_of(port.protocol, PROTOCOLS, here / "protocol")


def env_source(variable: core.EnvVar, path: Path) -> Errors:
    """Yield errors unless an environment variable has exactly one source and no value."""
    source, here = variable.valueFrom, path / "valueFrom"
    chosen = [name for name in _ENV_SOURCES if getattr(source, name) is not None]
    if not chosen:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield invalid(here, "", text)
    elif variable.value:
        yield invalid(here, "", "may not be specified when `value` is not empty")
    elif len(chosen) > 1:
        yield invalid(here, "", "may not have more than one field specified at a time")


def mounts(value: core.Container | core.EphemeralContainer, _: object, path: Path, parts: PodParts) -> Errors:
    """Yield errors in the volume mounts of a container, for example unknown volumes or duplicate paths."""
    seen: set[str] = set()
    for index, mount in enumerate(value.volumeMounts):
        here = path / "volumeMounts" / index
        if not mount.name:
            yield required(here / "name")
        if mount.name not in parts.volumes or not mount.name:
            yield not_found_value(here / "name", mount.name)
        if not mount.mountPath:
            yield required(here / "mountPath")
        if mount.mountPath in seen:
            yield invalid(here / "mountPath", mount.mountPath, "must be unique")
        seen.add(mount.mountPath)
        if mount.subPath and mount.subPathExpr:
            yield invalid(here / "subPathExpr", mount.subPathExpr, "subPathExpr and subPath are mutually exclusive")
        for name in ("subPath", "subPathExpr"):
            if below := getattr(mount, name):
                yield from descending(below, here / name)
        if mount.mountPropagation is not None:
            yield from propagation(mount.mountPropagation, value.securityContext, here / "mountPropagation")


def resources(value: core.ResourceRequirements, _: object, path: Path, parts: PodParts) -> Errors:
    """Yield errors in the requests, limits and claims of a container."""
    for name, amount in value.limits.items():
        if not is_valid(name, amount):
            yield from resource(name, amount, path / "limits" % name)
    for name, amount in value.requests.items():
        if not is_valid(name, amount):
            yield from resource(name, amount, path / "requests" % name)
        limit = value.limits.get(name)
        if limit is None:
            if not may_overcommit(name):
                yield required(path / "limits", "Limit must be set for non overcommitable resources")
        elif not may_overcommit(name) and Quantity.parse(amount) != Quantity.parse(limit):
            yield invalid(path / "requests", amount, f"must be equal to {name} limit of {limit}")
        elif Quantity.parse(amount) > Quantity.parse(limit):
            yield invalid(path / "requests", amount, f"must be less than or equal to {name} limit of {limit}")
    given = {*value.limits, *value.requests}
    if not given & _ORDINARY and any(name.startswith("hugepages-") for name in given):
        yield forbidden(path, "HugePages require cpu or memory")
    if value.claims:
        yield from _container_claims(value.claims, path / "claims", parts.claims)


def _container_claims(
    items: tuple[core.ResourceClaim, ...], path: Path, claims: Mapping[str, core.PodResourceClaim]
) -> Errors:
    seen: set[str] = set()
    for index, item in enumerate(items):
        here = path / index
        if not item.name:
            yield required(here)
            continue
        yield from _container_claim(item, here, seen)
        if item.name not in claims:
            known = sorted(filter(None, claims))
            listed = f": {', '.join(known)}" if known else " which is empty"
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield not_found_value(here, item.name, text)


def _container_claim(item: core.ResourceClaim, path: Path, seen: set[str]) -> Errors:
    """Yield errors if a claim, or one of its requests, is listed twice. Adds its key to `seen`."""
    if item.name in seen:
        yield duplicate(path, item.name)
        return
    key = item.name
    if item.request:
        yield from named(item.request, path / "request", names.label)
        key = f"{item.name}/{item.request}"
    if key in seen or (not item.request and any(other.startswith(f"{key}/") for other in seen)):
        yield duplicate(path, key)
    seen.add(key)
