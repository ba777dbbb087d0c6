"""The facts for a question: copies of the picture, and objects read for this question only.

Few questions need more than the picture follows, and none needs all events of a cluster, of which there can be
hundreds of thousands. So each question lists its additional queries. `analyst` answers the questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.api.errors import Forbidden, NotFound
from dray.api.resources import BY_TYPE
from dray.api.types.core import Event, Namespace, ResourceQuota
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import ResourceClaimTemplate
from dray.api.types.scheduling import PriorityClass
from dray.client import Client
from dray.web.access import ClusterFacts
from dray.web.rights import VisibleScope

if TYPE_CHECKING:
    from dray.web.picture import DashboardPicture


class FieldQuery(NamedTuple):
    """Additional objects for a question: those of a type that a field selector selects."""

    type_: type[Any]
    fields: str = ""


PLACEMENT: tuple[FieldQuery, ...] = tuple(
    FieldQuery(type_) for type_ in (ResourceClaimTemplate, Namespace, ResourceQuota, PriorityClass, PodDisruptionBudget)
)
"""Types that influence where a pod can be placed, in addition to those that a picture follows."""
_READ = (VisibleScope.ALL, VisibleScope.NAMESPACE)
REFUSED_CLAIMS = FieldQuery(Event, "reason=FailedResourceClaimCreation")


def events_of(pod: str) -> FieldQuery:
    """Return the query for events of a pod, and of pods with the same name in other namespaces."""
    return FieldQuery(Event, f"involvedObject.kind=Pod,involvedObject.name={pod}")


async def facts(picture: DashboardPicture, wanted: Sequence[FieldQuery] = ()) -> ClusterFacts:
    """Return the known facts. A type that is neither followed nor queried is in none of the parts."""
    home = picture.identity.namespace
    read = await asyncio.gather(*(_read(picture.client, one, home) for one in wanted))
    found = {one.type_: answer for one, answer in zip(wanted, read, strict=True)}
    following = picture.following

    def types_of(scope: VisibleScope) -> frozenset[type[Any]]:
        return following.types_of(scope) | {type_ for type_, one in found.items() if one.scope is scope}

    return ClusterFacts(
        picture.epoch,
        following.copies() | {type_: one.objects for type_, one in found.items() if one.scope in _READ},
        types_of(VisibleScope.HIDDEN),
        types_of(VisibleScope.ABSENT),
        types_of(VisibleScope.NAMESPACE),
        dict(picture.inventory.views),
        picture.tables["devices"].find,
    )


class _Answer(NamedTuple):
    """Objects that were read for a query, and how much of their type the user may read."""

    scope: VisibleScope
    objects: tuple[Any, ...] = ()


async def _read(client: Client, wanted: FieldQuery, home: str) -> _Answer:
    """Return all objects; those of the home namespace if the user may not read all; or none."""
    is_namespaced = BY_TYPE[wanted.type_].namespaced
    for scope, namespace in ((VisibleScope.ALL, ""), (VisibleScope.NAMESPACE, home))[: 1 + is_namespaced]:
        try:
            return _Answer(scope, (await client.list(wanted.type_, namespace, fields=wanted.fields)).items)
        except NotFound:
            return _Answer(VisibleScope.ABSENT)
        except Forbidden:
            continue
    return _Answer(VisibleScope.HIDDEN)
