"""A client whose server is a list of instructions, for what a real server does only rarely: cut watches, 410, outages."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from dray.api.errors import not_found
from dray.api.types.core import ConfigMap
from dray.api.types.meta import ObjectMeta
from dray.client import EventBatch, Page, WatchEvent, resource_of


def config_map(name: str, version: int, *, uid: str = "", namespace: str = "ns", **data: str) -> ConfigMap:
    meta = ObjectMeta(name=name, namespace=namespace, resourceVersion=str(version), uid=uid or f"uid-{name}")
    return ConfigMap(metadata=meta, data=data)


def event(type_: str, obj: ConfigMap) -> WatchEvent[ConfigMap]:
    return WatchEvent(type_, obj, obj.metadata.resourceVersion)


def bookmark(version: int) -> WatchEvent[ConfigMap]:
    return WatchEvent("BOOKMARK", ConfigMap(metadata=ObjectMeta(resourceVersion=str(version))), str(version))


class ScriptedClient:
    """Answers lists and watches in the order given; a watch without script stays silent. `served` is what discovery says."""

    def __init__(self) -> None:
        self.lists: deque[Page[Any] | Exception] = deque()
        self.watches: deque[list[EventBatch[Any] | Exception]] = deque()
        self.served: bool | Exception = True
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.live: asyncio.Queue[EventBatch[Any] | Exception | None] = asyncio.Queue()

    async def list(self, type_: type[Any], namespace: str = "", **options: Any) -> Page[Any]:
        self.calls.append(("list", {"namespace": namespace, **options}))
        answer = self.lists.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(
        self, type_: type[Any], namespace: str = "", **options: Any
    ) -> AsyncGenerator[EventBatch[Any], None]:
        self.calls.append(("watch", {"namespace": namespace, **options}))
        if self.watches:
            for step in self.watches.popleft():
                if isinstance(step, Exception):
                    raise step
                yield step
            return
        while (step := await self.live.get()) is not None:
            if isinstance(step, Exception):
                raise step
            yield step

    async def get(self, type_: type[Any], name: str, namespace: str = "") -> Any:
        raise not_found(resource_of(type_), name)

    async def serves(self, type_: type[Any]) -> bool:
        if isinstance(self.served, Exception):
            raise self.served
        return self.served

    def versions_watched(self) -> list[str]:
        return [options["resource_version"] for verb, options in self.calls if verb == "watch"]

    def count(self, verb: str) -> int:
        return sum(1 for called, _ in self.calls if called == verb)
