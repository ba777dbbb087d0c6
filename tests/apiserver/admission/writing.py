"""Admission requests for tests, made from trees."""

from typing import Any

from dray.api.decode import to_object
from dray.api.resources import BY_KIND, Resource
from dray.api.users import ADMIN, User
from dray.api.wire import Tree
from dray.apiserver.admission import AdmissionPlugin, AdmissionRequest, Chain, Operation


def resource_of(tree: Tree) -> Resource:
    return BY_KIND[tree["apiVersion"].rpartition("/")[0], tree["kind"]]


def typed(tree: Tree | None) -> Any:
    return to_object(resource_of(tree), {**tree, "metadata": dict(tree["metadata"])}) if tree else None


def about(
    operation: Operation, tree: Tree, *, old: Tree | None = None, user: User = ADMIN, subresource: str = "", **more: Any
) -> AdmissionRequest:
    """A request about the tree; of a DELETE, the tree is the old object."""
    deleting = operation == "DELETE"
    return AdmissionRequest(
        user,
        operation,
        resource_of(tree),
        tree["metadata"].get("namespace", ""),
        tree["metadata"].get("name", ""),
        subresource,
        tree=None if deleting else tree,
        object=None if deleting else typed(tree),
        old=typed(tree if deleting else old),
        **more,
    )


async def create(plugin: AdmissionPlugin, tree: Tree, **more: Any) -> AdmissionRequest:
    """Pass a creation through both steps of a plugin."""
    asked = about("CREATE", tree, **more)
    await Chain([plugin]).admit(asked)
    asked.object = typed(tree)
    await Chain([plugin]).validate(asked)
    return asked


async def update(plugin: AdmissionPlugin, old: Tree, new: Tree, **more: Any) -> AdmissionRequest:
    asked = about("UPDATE", new, old=old, **more)
    await Chain([plugin]).admit(asked)
    asked.object = typed(new)
    await Chain([plugin]).validate(asked)
    return asked


async def delete(plugin: AdmissionPlugin, tree: Tree, **more: Any) -> AdmissionRequest:
    asked = about("DELETE", tree, **more)
    await Chain([plugin]).validate(asked)
    return asked
