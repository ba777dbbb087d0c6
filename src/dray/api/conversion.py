"""Between the served versions of a kind and the one form in which it is stored, as the file of the kind says.

Trees are converted in place: they are private to the request. What a version cannot express survives an update through
it, because the stored object is passed along and lends those fields. Defaults are applied to stored trees only, so
conversion also knows the few that differ by version (a v1alpha1 group without policy). Left out: kinds with one version.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dray.api.custom import pruning
from dray.api.needs import Lacking, StepNeed
from dray.api.resources import Resource
from dray.api.types import scheduling
from dray.api.wire import Tree, Wire

# From a name to that Workload in the namespace of the request, if there is one.
WorkloadLookup = Callable[[str], scheduling.Workload | None]


class ObjectConversion(StepNeed):
    """An object in a version that only the webhook of its definition can make, as JSON."""

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
    """A request's tree in the stored form. `old` is the stored object that an update replaces."""
    if resource.custom is not None:
        return _custom(resource, resource.stored, tree)
    if convert := resource.to_stored.get(version):
        convert(tree, old, workloads)
    tree["apiVersion"] = resource.home.api_version()
    return tree


def from_stored(resource: Resource, version: str, tree: Tree) -> Tree:
    """A stored tree as a version shows it."""
    if resource.custom is not None:
        tree = _custom(resource, version, tree)
        shape_custom(resource, version, tree)
        return tree
    if convert := resource.from_stored.get(version):
        convert(tree)
    tree["apiVersion"] = resource.api_version(version)
    return tree


def _custom(resource: Resource, version: str, tree: Tree) -> Tree:
    """An object in another version: the same but for its apiVersion, or what the webhook made of it. Raises Lacking."""
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
    """Give an object the shape that the schema of its version asks for, whatever that was when it was written."""
    assert resource.custom is not None
    node = resource.custom.versions[version].node
    pruning.pruned(node, tree)
    pruning.fill(node, tree)
