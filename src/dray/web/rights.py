"""Rights of an identity to read objects, determined with SelfSubjectAccessReviews.

Informers keep their copies when a right is revoked, so rights are checked periodically. `picture` reacts to changes.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any

from dray.api.errors import Forbidden
from dray.api.resources import BY_TYPE
from dray.api.types.authorization import SelfSubjectAccessReview
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup, Workload
from dray.api.wire import Tree
from dray.client import Client

FOLLOWED: tuple[type[Any], ...] = (
    Node,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    Pod,
    PodGroup,
    Workload,
)


class VisibleScope(StrEnum):
    """How much of a resource an identity may read."""

    ALL = "all"
    NAMESPACE = "namespace"
    HIDDEN = "hidden"
    ABSENT = "absent"


Scopes = dict[type[Any], VisibleScope]


async def scopes(client: Client, namespace: str) -> Scopes:
    """Return how much may be read of each type that a picture follows. Raises ApiError, for example Unauthorized."""
    found = await asyncio.gather(*(_scope(client, type_, namespace) for type_ in FOLLOWED))
    return dict(zip(FOLLOWED, found, strict=True))


async def _scope(client: Client, type_: type[Any], namespace: str) -> VisibleScope:
    """Return how much of a type may be read."""
    if not await client.serves(type_):
        return VisibleScope.ABSENT
    if await _may_follow(client, type_, ""):
        return VisibleScope.ALL
    if BY_TYPE[type_].namespaced and await _may_follow(client, type_, namespace):
        return VisibleScope.NAMESPACE
    return VisibleScope.HIDDEN


async def _may_follow(client: Client, type_: type[Any], namespace: str) -> bool:
    """Return whether the user may list and watch a type in a namespace."""
    return await may(client, "list", type_, namespace) and await may(client, "watch", type_, namespace)


async def may(client: Client, verb: str, type_: type[Any], namespace: str = "") -> bool:
    """Return whether the client's user may perform a verb on a type.

    An empty namespace means all namespaces. False if access reviews are forbidden.
    """
    resource = BY_TYPE[type_]
    wanted = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace}
    return await _allowed(client, {"resourceAttributes": wanted})


async def may_measure(client: Client) -> bool:
    """Return whether the client's user may read the server's metrics, which include drivers' operations.

    False if access reviews are forbidden.
    """
    return await _allowed(client, {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}})


async def _allowed(client: Client, wanted: Tree) -> bool:
    """Return the answer of a SelfSubjectAccessReview; False if reviews are forbidden."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": wanted}
    try:
        return (await client.create(SelfSubjectAccessReview, review)).status.allowed
    except Forbidden:
        return False


def is_less(before: Scopes, after: Scopes) -> bool:
    """Return whether a right was lost.

    True if any type of `before` is visible in a smaller scope afterwards.
    """
    order = [VisibleScope.ABSENT, VisibleScope.HIDDEN, VisibleScope.NAMESPACE, VisibleScope.ALL]
    return any(order.index(after[type_]) < order.index(scope) for type_, scope in before.items())


def as_tree(known: Scopes) -> dict[str, str]:
    """Return how much of each type may be read, by plural name, in wire form.

    Values are those of VisibleScope.
    """
    return {BY_TYPE[type_].plural: scope.value for type_, scope in known.items()}
