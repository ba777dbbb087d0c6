"""Which version of a resource a server speaks, asked once a group.

The client's own form is the stored version. Older clusters serve the same resource in an older one only; discovery says
so. Left out: translating between versions (`codec`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from dray.api.errors import ApiError, NotFound
from dray.api.resources import Resource

Fetch = Callable[[str], Awaitable[bytes]]
"""Reads a path of the server."""


class Versions:
    """What discovery said, until it proves wrong."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._served: dict[str, frozenset[str]] = {}  # "group/version" → plurals
        self._chosen: dict[Resource, str] = {}

    async def of(self, resource: Resource) -> str:
        """The version to speak: the stored one where it is served, else the first that is."""
        if len(resource.versions) == 1:
            return resource.stored
        if resource not in self._chosen:
            self._chosen[resource] = await self._choose(resource)
        return self._chosen[resource]

    def forget(self, resource: Resource) -> None:
        """A path was missing: the server may have changed, so ask again next time."""
        if self._chosen.pop(resource, None) is not None:
            self._served = {key: plurals for key, plurals in self._served.items() if not key.startswith(resource.group)}

    async def _choose(self, resource: Resource) -> str:
        others = [version for version in resource.versions if version != resource.stored]
        for version in (resource.stored, *others):
            if resource.plural in await self._plurals(resource.api_version(version)):
                return version
        return resource.stored

    async def _plurals(self, group_version: str) -> frozenset[str]:
        if group_version not in self._served:
            try:
                tree: Any = msgspec.json.decode(await self._fetch(f"/apis/{group_version}"))
                names = frozenset(str(entry["name"]) for entry in tree["resources"] or ())
            except NotFound:
                names = frozenset()
            except (msgspec.DecodeError, KeyError, TypeError) as error:
                raise ApiError(f"discovery of {group_version} cannot be read: {error}") from error
            self._served[group_version] = names
        return self._served[group_version]
