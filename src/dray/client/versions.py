"""Discovers which version of a resource a server serves, once per group, and whether it serves the resource at all.

The client prefers the stored version; older clusters may serve only an older version. `codec` converts between
versions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from dray.api.errors import ApiError, NotFound
from dray.api.resources import Resource

Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the document at a path of the server."""


class _Resource(Struct):
    name: str


class _Resources(Struct):
    """The resources in a version of a group."""

    resources: list[_Resource] | None


class _Version(Struct):
    version: str


class _ApiGroup(Struct):
    name: str
    versions: list[_Version]


class _Groups(Struct):
    """The groups of the server, without the core group."""

    groups: list[_ApiGroup]


DiscoveryDocument = TypeVar("DiscoveryDocument", _Resources, _Groups)


class ServedVersions:
    """Cache of the server's discovery information."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._served: dict[str, frozenset[str]] = {}  # "group/version" → plurals
        self._chosen: dict[Resource, str] = {}

    async def of(self, resource: Resource) -> str:
        """Return the version to use: the stored one if it is served or none is, otherwise the first served one."""
        if len(resource.versions) == 1:
            return resource.stored
        if resource not in self._chosen:
            self._chosen[resource] = await self._choose(resource)
        return self._chosen[resource]

    def forget(self, resource: Resource) -> None:
        """Clear the cache for a resource after a path was missing, because the server may have changed."""
        if self._chosen.pop(resource, None) is not None:
            self._served = {key: plurals for key, plurals in self._served.items() if not key.startswith(resource.group)}

    async def serves(self, resource: Resource) -> bool:
        """Return whether the server serves the resource in any version; always asks the server.

        Returns False only if a discovery document lacks the resource. Raises if a document itself is missing,
        because a proxy may have lost its server.
        """
        for version in await self._offered(resource):
            if resource.plural in await self._listed(resource.api_version(version)):
                return True
        return False

    async def _offered(self, resource: Resource) -> list[str]:
        """Return the versions of the resource in which the server has the resource's group, empty if it lacks the
        group.

        The order is that of the resource's versions. Raises ApiError if the server's groups cannot be read.
        """
        if not resource.group:
            return [resource.stored]  # every server has the core group
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

    async def _read(self, path: str, form: type[DiscoveryDocument]) -> DiscoveryDocument:
        try:
            return msgspec.json.decode(await self._fetch(path), type=form)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(f"discovery at {path} cannot be read: {error}") from error
