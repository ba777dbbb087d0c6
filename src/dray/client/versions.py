"""Which version of a resource a server speaks, asked once a group, and whether it has the resource at all.

The client's own form is the stored version. Older clusters serve the same resource in an older one only; discovery says
so. Left out: translating between versions (`codec`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from dray.api.errors import ApiError, NotFound
from dray.api.resources import Resource

Fetch = Callable[[str], Awaitable[bytes]]
"""Reads a path of the server."""


class _Resource(Struct):
    name: str


class _Resources(Struct):
    """What a version of a group has."""

    resources: list[_Resource] | None


class _Version(Struct):
    version: str


class _ApiGroup(Struct):
    name: str
    versions: list[_Version]


class _Groups(Struct):
    """Which groups there are, but for the core."""

    groups: list[_ApiGroup]


Document = TypeVar("Document", _Resources, _Groups)


class ServedVersions:
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

    async def serves(self, resource: Resource) -> bool:
        """Whether the server has the resource in any version, asked again.

        Only a document without it says no. One that is missing itself raises: it may be a proxy that lost its server.
        """
        for version in await self._offered(resource):
            if resource.plural in await self._listed(resource.api_version(version)):
                return True
        return False

    async def _offered(self, resource: Resource) -> list[str]:
        """The versions of the resource whose group the server has in that version."""
        if not resource.group:
            return [resource.stored]  # no server is without the core
        groups = (await self._read("/apis", _Groups)).groups
        versions = {one.version for group in groups if group.name == resource.group for one in group.versions}
        return [version for version in resource.versions if version in versions]

    async def _choose(self, resource: Resource) -> str:
        others = [version for version in resource.versions if version != resource.stored]
        for version in (resource.stored, *others):
            if resource.plural in await self._plurals(resource.api_version(version)):
                return version
        return resource.stored

    async def _plurals(self, group_version: str) -> frozenset[str]:
        if group_version not in self._served:
            try:
                names = await self._listed(group_version)
            except NotFound:
                names = frozenset()
            self._served[group_version] = names
        return self._served[group_version]

    async def _listed(self, group_version: str) -> frozenset[str]:
        path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        return frozenset(one.name for one in (await self._read(path, _Resources)).resources or ())

    async def _read(self, path: str, form: type[Document]) -> Document:
        try:
            return msgspec.json.decode(await self._fetch(path), type=form)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(f"discovery at {path} cannot be read: {error}") from error
