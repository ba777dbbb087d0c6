"""Read-only client of a recording, whose objects never change. Left out: writing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any, cast

from dray.api.calls import AnsweredByObject, AnyDeleteCall, CreateCall, GetCall, ListCall, WatchCall
from dray.api.errors import Forbidden, NotFound
from dray.api.types.authorization import SelfSubjectAccessReview, SubjectAccessReviewStatus
from dray.api.wire import Tree, Wire
from dray.client.interface import Client, EventBatch, Page, T

_VERSION = "1"


class Recorded(Client):
    """`Client` of a recording. Only implements reading."""

    def __init__(self, objects: Iterable[Wire]) -> None:
        self._objects: dict[type[Any], dict[tuple[str, str], Any]] = {}
        for one in cast("Iterable[Any]", objects):
            meta = one.metadata
            self._objects.setdefault(type(one), {})[meta.namespace, meta.name] = one

    async def serves(self, type_: type[Any]) -> bool:
        return True

    async def aclose(self) -> None:
        """Do nothing, because there are no resources to release."""

    async def _object(self, call: AnsweredByObject) -> Any:
        if isinstance(call, GetCall):
            found = self._objects.get(call.resource.type, {}).get((call.namespace, call.name))
            if found is None:
                raise NotFound(f"the recording has no {call.resource.kind} {call.name}")
            return found
        if isinstance(call, CreateCall) and call.resource.type is SelfSubjectAccessReview:
            verb = cast(Tree, call.body)["spec"].get("resourceAttributes", {}).get("verb")
            return SelfSubjectAccessReview(status=SubjectAccessReviewStatus(allowed=verb in ("list", "watch")))
        raise Forbidden("nothing is written to a recording")

    async def _page(self, call: ListCall) -> Page[Any]:
        found = self._objects.get(call.resource.type, {}).items()
        return Page(tuple(one for (where, _), one in found if call.namespace in ("", where)), _VERSION)

    async def _delete(self, call: AnyDeleteCall) -> None:
        raise Forbidden("nothing is written to a recording")

    async def _changes(self, type_: type[T], call: WatchCall) -> AsyncGenerator[EventBatch[T], None]:
        await asyncio.Event().wait()
        yield []
