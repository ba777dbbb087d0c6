"""Conversion between the served versions of a kind and its stored version, as defined in the module of the kind.

Trees are converted in place, because they belong to one request. Fields that a version lacks survive an update in
this version: they are copied from the stored object. Defaults are applied only to stored trees, so conversion
also sets the few defaults that differ between versions (for example the policy of a v1alpha1 group). Kinds with
one version need no conversion.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dray.api.custom import pruning
from dray.api.needs import Lacking, StepNeed
from dray.api.resources import Resource
from dray.api.types import scheduling
from dray.api.wire import Tree, Wire

# Returns the Workload with a name in the namespace of the request, or None.
WorkloadLookup = Callable[[str], scheduling.Workload | None]


class ObjectConversion(StepNeed):
    """Need for an object in a version that only the conversion webhook of its definition can create, as JSON."""

    def __init__(self, resource: Resource, version: str, tree: Tree) -> None:
        self.key = resource.api_version(version), msgspec.json.encode(tree)
        self.resource = resource
        self.version = version
        self.tree = tree


def to_stored(
    resource: Resource,
    version: str,
    tree: Tree,
    old: Wire | None = None,
    workloads: WorkloadLookup | None = None,
) -> Tree:
    """Convert the tree of a request to the stored version. `old` is the stored object that an update replaces.

    The tree can be changed in place; use the result. Raises Lacking if a conversion webhook must be called first.
    """
    if resource.custom is not None:
        return _custom(resource, resource.stored, tree)
    if convert := resource.to_stored.get(version):
        convert(tree, old, workloads)
    tree["apiVersion"] = resource.home.api_version()
    return tree


def from_stored(resource: Resource, version: str, tree: Tree) -> Tree:
    """Convert a stored tree to a served version. Raises Lacking if a conversion webhook must be called first.

    The tree can be changed in place; use the result.
    """
    if resource.custom is not None:
        tree = _custom(resource, version, tree)
        shape_custom(resource, version, tree)
        return tree
    if convert := resource.from_stored.get(version):
        convert(tree)
    tree["apiVersion"] = resource.api_version(version)
    return tree


def _custom(resource: Resource, version: str, tree: Tree) -> Tree:
    """Convert a custom object by its apiVersion or the webhook's result. Raises Lacking if that is missing.

    Without a conversion webhook, only the apiVersion of `tree` is set, in place.
    """
    assert resource.custom is not None
    wanted = resource.api_version(version)
    if resource.custom.converts and tree["apiVersion"] != wanted:
        need = ObjectConversion(resource, version, tree)
        known = resource.converted if resource.converted is not None else {}
        if need.key not in known:
            raise Lacking(known, need)
        converted: Tree = msgspec.json.decode(known[need.key])
        return converted
    tree["apiVersion"] = wanted
    return tree


def shape_custom(resource: Resource, version: str, tree: Tree) -> None:
    """Prune and default a custom object, in place, with the schema of its version.

    The schema may be newer than the object.
    """
    assert resource.custom is not None
    node = resource.custom.versions[version].node
    pruning.pruned(node, tree)
    pruning.fill(node, tree)
