"""Which object a call means: names given beside the tree or in it, and the path that says so over HTTP.

Left out: versions and query parameters.
"""

from __future__ import annotations

from urllib.parse import quote

from dray.api.errors import BadRequest
from dray.api.resources import Resource
from dray.api.wire import Tree
from dray.client.interface import Object


def namespace_in(resource: Resource, obj: Object | Tree, namespace: str) -> str:
    """The namespace of a write: the caller's, or the object's; none for cluster-wide resources."""
    if not resource.namespaced:
        return ""
    if not namespace:
        named = (obj.get("metadata") or {}).get("namespace") if isinstance(obj, dict) else obj.metadata.namespace
        namespace = named or ""
    if not namespace:
        raise BadRequest(f"{resource.plural} are namespaced: a namespace is required to write one")
    return namespace


def name_in(resource: Resource, tree: Tree, name: str) -> str:
    """The name of an update: the caller's, or the tree's."""
    name = name or (tree.get("metadata") or {}).get("name") or ""
    if not name:
        raise BadRequest(f"a name is required to update one of the {resource.plural}")
    return name


def required_name(resource: Resource, name: str) -> str:
    """Refuse a call that would mean the whole collection."""
    if not name:
        raise BadRequest(f"a name is required to address one of the {resource.plural}")
    return name


def path(resource: Resource, version: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of a collection, an object or a subresource."""
    parts = [f"/apis/{resource.group}" if resource.group else "/api", version]
    if resource.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource.plural)
    parts += [quote(part, safe="") for part in (name, subresource) if part]
    return "/".join(parts)
