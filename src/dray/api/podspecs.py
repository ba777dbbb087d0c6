"""Defaults of pod specs, in pods and in templates of other kinds."""

from __future__ import annotations

import re

from dray.api.trees import fill
from dray.api.wire import Tree

_FILE_MODE = 0o644
_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_TOKEN_LIFETIME = 3600
_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    rf"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"
)


def template_defaults(holder: Tree) -> None:
    """Add the defaults of a pod spec to the `template` of a PodTemplate or workload, in place.

    A missing template is created.
    """
    spec_defaults(holder.setdefault("template", {}).setdefault("spec", {}))


def spec_defaults(spec: Tree) -> None:
    """Add the defaults to a pod spec, in place."""
    fill(spec, "dnsPolicy", "ClusterFirst")
    fill(spec, "restartPolicy", "Always")
    fill(spec, "schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    _service_account(spec)
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for name in _CONTAINER_LISTS:
        for container in spec.get(name) or ():
            _container(container, host_network=bool(spec.get("hostNetwork")) and name != "ephemeralContainers")


def _service_account(spec: Tree) -> None:
    """Copy the service account name between the current field and the deprecated one."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _container(container: Tree, host_network: bool) -> None:
    fill(container, "terminationMessagePath", "/dev/termination-log")
    fill(container, "terminationMessagePolicy", "File")
    fill(container, "imagePullPolicy", pull_policy(container.get("image") or ""))
    for port in container.get("ports") or ():
        fill(port, "protocol", "TCP")
        if host_network:
            fill(port, "hostPort", port.get("containerPort", 0))
    for variable in container.get("env") or ():
        _field_ref(variable.get("valueFrom"))
    for name in _PROBES:
        if container.get(name) is not None:
            _probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook.get("httpGet"))


def pull_policy(image: str) -> str:
    """Return the default imagePullPolicy: Always for images without a tag or with the tag latest.

    Returns IfNotPresent for all others, including images with a digest and invalid references.
    """
    if "@" in image:
        return "IfNotPresent"
    if not _REFERENCE.fullmatch(image):
        return "IfNotPresent"  # an invalid reference, so it is unknown whether it has a tag
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _probe(probe: Tree) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        fill(probe, name, value)
    _http_get(probe.get("httpGet"))
    if probe.get("grpc") is not None:
        probe["grpc"].setdefault("service", "")


def _http_get(action: Tree | None) -> None:
    if action is not None:
        fill(action, "path", "/")
        fill(action, "scheme", "HTTP")


def _field_ref(holder: Tree | None) -> None:
    if holder and holder.get("fieldRef") is not None:
        fill(holder["fieldRef"], "apiVersion", "v1")


def _volume(volume: Tree) -> None:
    if not any(name != "name" for name in volume):
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        if volume.get(name) is not None:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")
    if volume.get("iscsi") is not None:
        fill(volume["iscsi"], "iscsiInterface", "default")
    if volume.get("image") is not None:
        fill(volume["image"], "pullPolicy", pull_policy(volume["image"].get("reference") or ""))
    if volume.get("ephemeral") is not None:
        claim = volume["ephemeral"].get("volumeClaimTemplate") or {}
        claim.get("spec", {}).setdefault("volumeMode", "Filesystem")
    for source in ({"downwardAPI": volume.get("downwardAPI")}, *((volume.get("projected") or {}).get("sources") or ())):
        _projection(source)


def _projection(source: Tree) -> None:
    for item in (source.get("downwardAPI") or {}).get("items") or ():
        _field_ref(item)
    if source.get("serviceAccountToken") is not None:
        source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_LIFETIME)
