"""Reading of a snapshot from an API server, as far as the user has permission. Left out: analysing it (`snapshot`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dray.api.errors import Forbidden, NotFound
from dray.api.resources import BY_TYPE
from dray.api.types.core import Namespace
from dray.api.types.resource import ResourcePoolStatusRequest
from dray.client import Client
from dray.inspect.snapshot import CLUSTER_WIDE, DISRUPTION, IN_NAMESPACE, Snapshot

REQUESTS: tuple[type[Any], ...] = (ResourcePoolStatusRequest,)
NAMESPACES: tuple[type[Any], ...] = (Namespace,)


async def fetch(client: Client, namespace: str, more: Iterable[type[Any]] = ()) -> Snapshot:
    """Read the objects needed to explain objects in a namespace, plus `more` types.

    An empty namespace means all namespaces.
    """
    wanted = [(type_, "") for type_ in (*CLUSTER_WIDE, *DISRUPTION, *more)]
    wanted += [(type_, namespace) for type_ in IN_NAMESPACE]
    return await read(client, wanted, namespace)


async def read(client: Client, wanted: Sequence[tuple[type[Any], str]], home: str) -> Snapshot:
    """Read objects by type and namespace; falls back to the home namespace if the user may not list all namespaces.

    An empty namespace means all. Types that may not be listed, are not served or were read only in the home namespace
    are noted in the snapshot.
    """
    answers = await asyncio.gather(*(_list(client, type_, where, home) for type_, where in wanted))
    types = [type_ for type_, _ in wanted]
    return Snapshot(
        {type_: one.found for type_, one in zip(types, answers, strict=True) if one.error is None},
        unreadable=frozenset(type_ for type_, one in zip(types, answers, strict=True) if one.error is Forbidden),
        unserved=frozenset(type_ for type_, one in zip(types, answers, strict=True) if one.error is NotFound),
        partial=frozenset(type_ for type_, one in zip(types, answers, strict=True) if one.partial),
        home=home,
    )


class _Listed(NamedTuple):
    """Result of a list request, or the type of its error."""

    found: tuple[Any, ...] = ()
    partial: bool = False
    error: type[Exception] | None = None


async def _list(client: Client, type_: type[Any], where: str, home: str) -> _Listed:
    """List all objects, or only those of the home namespace if the user may not list all.

    Returns the error type on failure.
    """
    try:
        return _Listed((await client.list(type_, where)).items)
    except NotFound:
        return _Listed(error=NotFound)
    except Forbidden:
        if where == home or not BY_TYPE[type_].namespaced:
            return _Listed(error=Forbidden)
    try:
        return _Listed((await client.list(type_, home)).items, partial=True)
    except (Forbidden, NotFound) as error:
        return _Listed(error=type(error))
