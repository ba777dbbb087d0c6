"""Validation of the downward API: fields of the pod, resources of a container, and files with them."""

from __future__ import annotations

import re

from dray.api.errors import invalid, required, unsupported
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import core

_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['[^']*'\]")
ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)


def pod_field(reference: core.ObjectFieldSelector, path: Path, allowed: tuple[str, ...]) -> Errors:
    """Yield an error if a reference to a pod field is missing, unknown, or not in `allowed`.

    References to one label or annotation are always allowed.
    """
    if not reference.fieldPath:
        yield required(path / "fieldPath")
    elif not _SUBSCRIPT.fullmatch(reference.fieldPath) and reference.fieldPath not in allowed:
        if reference.fieldPath not in {*ENV_FIELDS, *VOLUME_FIELDS}:
            text = f"error converting fieldPath: field label not supported: {reference.fieldPath}"
            yield invalid(path / "fieldPath", reference.fieldPath, text)
        else:
            yield unsupported(path / "fieldPath", reference.fieldPath, allowed)


def container_resource(reference: core.ResourceFieldSelector, path: Path, volume: bool) -> Errors:
    """Yield errors in a reference to a container's resource; in a volume it must name the container."""
    if volume and not reference.containerName:
        yield required(path / "containerName")
    if not reference.resource:
        yield required(path / "resource")
    elif reference.resource not in RESOURCES and not reference.resource.partition(".")[2].startswith("hugepages-"):
        yield unsupported(path / "resource", reference.resource, RESOURCES)


def env_field(reference: core.ObjectFieldSelector, path: Path) -> Errors:
    return pod_field(reference, path, ENV_FIELDS)


def env_resource(reference: core.ResourceFieldSelector, path: Path) -> Errors:
    return container_resource(reference, path, volume=False)


def file_source(item: core.DownwardAPIVolumeFile, path: Path) -> Errors:
    """Yield errors unless a downward API file has exactly one valid source."""
    if item.fieldRef is not None:
        yield from pod_field(item.fieldRef, path / "fieldRef", VOLUME_FIELDS)
        if item.resourceFieldRef is not None:
            yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif item.resourceFieldRef is not None:
        yield from container_resource(item.resourceFieldRef, path / "resourceFieldRef", volume=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
