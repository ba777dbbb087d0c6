"""A recording as a client reads it: everything may be read, and nothing ever changes. Left out: writing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import Any, cast

from dray.api.errors import Forbidden, NotFound
from dray.api.types.authorization import SelfSubjectAccessReview, SubjectAccessReviewStatus
from dray.api.wire import Wire
from dray.client.interface import Batch, Page, T

_VERSION = "1"


class Recorded:
    """A `Client` of a recording: the parts of the interface that only read."""

    def __init__(self, objects: Iterable[Wire]) -> None:
        self._objects: dict[type[Any], dict[tuple[str, str], Any]] = {}
        for one in cast("Iterable[Any]", objects):
            meta = one.metadata
            self._objects.setdefault(type(one), {})[meta.namespace, meta.name] = one

    async def serves(self, type_: type[Any]) -> bool:
        return True

    async def aclose(self) -> None:
        """Nothing is held."""

    async def get(self, type_: type[T], name: str, namespace: str = "") -> T:
        found = self._objects.get(type_, {}).get((namespace, name))
        if found is None:
            raise NotFound(f"the recording has no {type_.__name__} {name}")
        return cast(T, found)

    async def list(self, type_: type[T], namespace: str = "", **selectors: Any) -> Page[T]:
        found = self._objects.get(type_, {}).items()
        return Page(tuple(one for (where, _), one in found if namespace in ("", where)), _VERSION)

    async def watch(self, type_: type[T], namespace: str = "", **options: Any) -> AsyncGenerator[Batch[T], None]:
        await asyncio.Event().wait()
        yield []

    async def create(self, type_: type[T], obj: Any, **where: Any) -> T:
        if cast(Any, type_) is SelfSubjectAccessReview:
            verb = obj["spec"].get("resourceAttributes", {}).get("verb")
            return cast(T, SelfSubjectAccessReview(status=SubjectAccessReviewStatus(allowed=verb in ("list", "watch"))))
        raise Forbidden("nothing is written to a recording")

    async def _refuse(self, *arguments: Any, **options: Any) -> Any:
        raise Forbidden("nothing is written to a recording")

    update = patch = patch_status = delete = delete_collection = _refuse
