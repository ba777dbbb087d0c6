"""The client without a wire: calls the API server of the same process, as one user, through the same checks.

Objects and lists are the server's own, shared and immutable; nothing is encoded or copied, and a call that the server
answers from memory never leaves the caller's task. The server is known by its shape only (`Backend`), so this package
imports none. Left out: container logs, which come over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any, Protocol, cast

from msgspec.structs import replace

from dray.api.resources import Resource
from dray.api.types.meta import ObjectMeta
from dray.api.wire import Tree
from dray.client.address import name_in, namespace_in, required_name
from dray.client.codec import Codec
from dray.client.interface import Batch, Object, Page, Patch, PatchKind, T, WatchEvent, resource_of


class BackendAnswer(Protocol):
    """What the server answers: one of an object, a list, or a tree that has no stored form."""

    @property
    def version(self) -> Any: ...
    @property
    def tree(self) -> Tree | None: ...
    @property
    def object(self) -> Any: ...
    @property
    def items(self) -> list[Any]: ...
    @property
    def revision(self) -> int: ...
    @property
    def continue_token(self) -> str: ...
    @property
    def remaining(self) -> int | None: ...


class BackendChange(Protocol):
    """One event of the server's watch; a bookmark has no object."""

    @property
    def type(self) -> str: ...
    @property
    def object(self) -> Any: ...
    @property
    def revision(self) -> int: ...


class Backend(Protocol):
    """What this client needs of an API server."""

    @property
    def request(self) -> Callable[..., Any]:
        """Makes a request from user, verb, resource, namespace, name, subresource, body, options and user agent.

        `options` is a dict by the names of the server's own options; what is left out has its default.
        """
        ...

    async def handle(self, request: Any) -> Any: ...

    def watch(self, request: Any) -> AsyncIterator[Sequence[Any]]: ...


class InProcess:
    """A `Client` for a server in this process. The server takes trees over: do not touch them after a call."""

    def __init__(self, server: Backend, user: Any, *, user_agent: str = "dray") -> None:
        self._server = server
        self._request = server.request
        self._user = user
        self._user_agent = user_agent

    async def serves(self, type_: type[Object]) -> bool:
        return True  # gates close the paths to a resource, not the way through the process

    async def aclose(self) -> None:
        """Nothing is held."""

    async def get(self, type_: type[T], name: str, namespace: str = "") -> T:
        resource = resource_of(type_)
        required_name(resource, name)
        found: T = _object(resource, await self._call("get", resource, namespace, name))
        return found

    async def list(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        options = {
            "label_selector": labels,
            "field_selector": fields,
            "limit": limit,
            "continue_token": continue_,
            "resource_version": resource_version,
        }
        answer = await self._call("list", resource_of(type_), namespace, options=options)
        return Page(tuple(answer.items), str(answer.revision), answer.continue_token, answer.remaining)

    async def create(
        self, type_: type[T], obj: Object | Tree, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> T:
        resource = resource_of(type_)
        namespace = namespace_in(resource, obj, namespace)
        name = name if subresource else ""
        made: T = _object(resource, await self._call("create", resource, namespace, name, subresource, obj))
        return made

    async def update(
        self, type_: type[T], tree: Tree, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> T:
        resource = resource_of(type_)
        namespace, name = namespace_in(resource, tree, namespace), name_in(resource, tree, name)
        written: T = _object(resource, await self._call("update", resource, namespace, name, subresource, tree))
        return written

    async def patch(
        self,
        type_: type[T],
        name: str,
        patch: Patch,
        namespace: str = "",
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        manager: str = "",
        force: bool = False,
    ) -> T:
        resource = resource_of(type_)
        required_name(resource, name)
        options = {"patch_type": kind.value, "field_manager": manager, "force": force}
        answer = await self._call("patch", resource, namespace, name, subresource, patch, options)
        written: T = _object(resource, answer)
        return written

    async def patch_status(self, obj: T, status: Any) -> T:
        resource, meta = resource_of(type(obj)), obj.metadata
        wanted = replace(obj, status=status)  # type: ignore[type-var]  # every kind with a status is a struct
        written: T = _object(resource, await self._call("patch", resource, meta.namespace, meta.name, "status", wanted))
        return written

    async def delete(
        self,
        type_: type[T],
        name: str,
        namespace: str = "",
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> None:
        resource = resource_of(type_)
        required_name(resource, name)
        options = {
            "grace_period_seconds": grace,
            "propagation_policy": propagation or "",
            "precondition_uid": uid or "",
            "precondition_resource_version": resource_version or "",
        }
        await self._call("delete", resource, namespace, name, options=options)

    async def delete_collection(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        grace: int | None = None,
        propagation: str | None = None,
    ) -> None:
        options = {
            "label_selector": labels,
            "field_selector": fields,
            "grace_period_seconds": grace,
            "propagation_policy": propagation or "",
        }
        await self._call("deletecollection", resource_of(type_), namespace, options=options)

    async def watch(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = True,
        timeout: float | None = None,
    ) -> AsyncGenerator[Batch[T], None]:
        options = {
            "label_selector": labels,
            "field_selector": fields,
            "resource_version": resource_version,
            "allow_bookmarks": bookmarks,
            "timeout_seconds": timeout,
        }
        resource = resource_of(type_)
        request = self._request(self._user, "watch", resource, namespace, "", "", None, options, self._user_agent)
        async with aclosing(
            cast("AsyncGenerator[Sequence[BackendChange], None]", self._server.watch(request))
        ) as batches:
            async for batch in batches:
                yield [_event(type_, change) for change in batch]

    def _call(
        self,
        verb: str,
        resource: Resource,
        namespace: str,
        name: str = "",
        subresource: str = "",
        body: Any = None,
        options: dict[str, Any] | None = None,
    ) -> Awaitable[BackendAnswer]:
        request = self._request(
            self._user, verb, resource, namespace, name, subresource, body, options, self._user_agent
        )
        return self._server.handle(request)


def _object(resource: Resource, answer: BackendAnswer) -> Any:
    version = answer.version
    if version is not None:
        return version.object
    codec = _known_codec(resource) if resource.custom is None else _codec(resource)  # it goes with its definition
    return codec.typed(answer.tree or {})


def _codec(resource: Resource) -> Codec:
    return Codec(resource, resource.stored)


_known_codec = cache(_codec)


def _event(type_: type[T], change: BackendChange) -> WatchEvent[T]:
    obj = change.object
    version = str(change.revision)
    if obj is None:
        obj = cast(Any, type_)(metadata=ObjectMeta(resourceVersion=version))
    return WatchEvent(change.type, obj, version)
