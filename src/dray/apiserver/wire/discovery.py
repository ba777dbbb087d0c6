"""Discovery documents: served groups, versions and resources, in the classic and the aggregated form.

Gates and `--runtime-config` decide what is served. Each document is encoded once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import msgspec

from dray.api.resources import Resource

VersionsByResource: TypeAlias = Mapping[Resource, Sequence[str]]  # served versions of each resource

V2 = "v2"
V2BETA1 = "v2beta1"
READ_WRITE = ("get", "patch", "update")
CONNECT = ("create", "get")
PROXY = ("create", "delete", "get", "patch", "update")
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


class Subresource(msgspec.Struct, frozen=True):
    """Verbs of a subresource, and its kind if that differs from the parent's."""

    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


DEFAULT_SUBRESOURCE = Subresource(READ_WRITE)
SUBRESOURCES: dict[str, Subresource] = {
    "attach": Subresource(CONNECT, "PodAttachOptions"),
    "binding": Subresource(("create",), "Binding"),
    "eviction": Subresource(("create",), "Eviction", "policy", "v1"),
    "exec": Subresource(CONNECT, "PodExecOptions"),
    "finalize": Subresource(("update",)),
    "log": Subresource(("get",)),
    "portforward": Subresource(CONNECT, "PodPortForwardOptions"),
    "scale": Subresource(READ_WRITE, "Scale", "autoscaling", "v1"),
    "token": Subresource(("create",), "TokenRequest", "authentication.k8s.io", "v1"),
}


def subresource(resource: Resource, name: str) -> Subresource:
    """Return verbs and kind of a resource's subresource, by its name; defaults for a name that is not listed."""
    if name == "proxy":
        return Subresource(PROXY, f"{resource.kind}ProxyOptions")
    return SUBRESOURCES.get(name, DEFAULT_SUBRESOURCE)


def version_order(version: str) -> tuple[int, int, int]:
    """Return a sort key for versions by preference: stable before beta before alpha, newer before older.

    Names of another form come last.

    >>> sorted(["v1alpha1", "v1", "v1beta1", "v2", "v1beta2"], key=version_order)
    ['v2', 'v1', 'v1beta2', 'v1beta1', 'v1alpha1']
    """
    match = _VERSION.fullmatch(version)
    if not match:
        return (3, 0, 0)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0))


class Discovery:
    """Discovery documents of a set of served resources, as JSON bytes."""

    def __init__(self, served: VersionsByResource) -> None:
        self._served = served

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """Served versions by group, preferred first."""
        found: dict[str, set[str]] = {}
        for resource, versions in self._served.items():
            if versions:
                found.setdefault(resource.group, set()).update(versions)
        return {group: sorted(versions, key=version_order) for group, versions in found.items()}

    def resources(self, group: str, version: str) -> list[Resource]:
        """Return the resources served in one version of a group, sorted by name."""
        found = [r for r, versions in self._served.items() if r.group == group and version in versions]
        return sorted(found, key=lambda r: r.plural)

    def core_versions(self, address: str = "") -> bytes:
        """Return the discovery document at /api: versions of the core group and the server's address."""
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        versions = self.groups.get("", [])
        return msgspec.json.encode(
            {"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": addresses}
        )

    @cached_property
    def group_list(self) -> bytes:
        """The discovery document at /apis: all served groups except core, with their versions."""
        groups = [self._group(name) for name in self.groups if name]
        return msgspec.json.encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})

    def group(self, name: str) -> bytes | None:
        """Return the document at /apis/GROUP, or None if the group is not served."""
        if not name or name not in self.groups:
            return None
        return msgspec.json.encode({"kind": "APIGroup", "apiVersion": "v1", **self._group(name)})

    def resource_list(self, group: str, version: str) -> bytes | None:
        """Return the document at /api/VERSION or /apis/GROUP/VERSION, or None if the version is not served."""
        if version not in self.groups.get(group, ()):
            return None
        rows: list[dict[str, Any]] = []
        for resource in self.resources(group, version):
            rows.append(_classic(resource))
            rows.extend(_classic_subresource(resource, name) for name in sorted(resource.subresources))
        api_version = f"{group}/{version}" if group else version
        return msgspec.json.encode(
            {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": rows}
        )

    def aggregated(self, core: bool, version: str = V2) -> bytes:
        """Return the aggregated document of everything below /api (core) or /apis."""
        items = [
            {
                "metadata": {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None},
                "versions": [self._aggregated_version(group, v) for v in versions],
            }
            for group, versions in self.groups.items()
            if (group == "") is core
        ]
        return msgspec.json.encode(
            {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"apidiscovery.k8s.io/{version}",
                "metadata": {},
                "items": items,
            }
        )

    def _group(self, name: str) -> dict[str, Any]:
        versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in self.groups[name]]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _aggregated_version(self, group: str, version: str) -> dict[str, Any]:
        rows = [_aggregated(resource, version) for resource in self.resources(group, version)]
        return {"version": version, "resources": rows, "freshness": "Current"}


def etag(document: bytes) -> str:
    """Return the entity tag of a discovery document: a hash of its content in quotes."""
    return f'"{hashlib.sha512(document).hexdigest().upper()}"'


def _classic(resource: Resource) -> dict[str, Any]:
    """Return a resource in the classic discovery format."""
    row: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    }
    if resource.short_names:
        row["shortNames"] = resource.short_names
    if resource.categories:
        row["categories"] = resource.categories
    if "list" in resource.verbs:
        row["storageVersionHash"] = _storage_hash(resource)
    return row


def _storage_hash(resource: Resource) -> str:
    """Return an opaque text that changes when the storage version of a resource changes."""
    digest = hashlib.sha256(f"{resource.api_version()}/{resource.kind}".encode()).digest()
    return msgspec.to_builtins(digest[:8])  # type: ignore[no-any-return]  # bytes become base64 text


def _classic_subresource(resource: Resource, name: str) -> dict[str, Any]:
    """Return a subresource in the classic discovery format."""
    known = subresource(resource, name)
    row: dict[str, Any] = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": known.kind or resource.kind,
        "verbs": known.verbs,
    }
    if known.version:
        row |= {"group": known.group, "version": known.version}
    return row


def _aggregated(resource: Resource, version: str) -> dict[str, Any]:
    """Return a resource in the aggregated discovery format."""
    row: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    }
    if resource.short_names:
        row["shortNames"] = resource.short_names
    if resource.categories:
        row["categories"] = resource.categories
    if resource.subresources:
        row["subresources"] = [
            _aggregated_subresource(resource, version, name) for name in sorted(resource.subresources)
        ]
    return row


def _aggregated_subresource(resource: Resource, version: str, name: str) -> dict[str, Any]:
    """Return a subresource in the aggregated discovery format."""
    known = subresource(resource, name)
    kind = {
        "group": known.group if known.version else resource.group,
        "version": known.version or version,
        "kind": known.kind or resource.kind,
    }
    return {"subresource": name, "responseKind": kind, "verbs": known.verbs}
