"""The client without a wire: calls the API server of the same process, as one user, through the same checks.

Objects and lists are the server's own, shared and immutable; nothing is encoded or copied, and a call that the server
answers from memory never leaves the caller's task. The server is known by its shape only (`Backend`), so this package
imports none. Left out: container logs, which come over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any, Protocol, cast

from msgspec.structs import replace

from dray.api.calls import (
    AnsweredCall,
    Caller,
    CreateCall,
    DeleteCall,
    DeleteCollectionCall,
    GetCall,
    ListCall,
    Patch,
    PatchCall,
    PatchKind,
    StatusCall,
    UpdateCall,
    WatchCall,
)
from dray.api.resources import Resource
from dray.api.types.meta import ObjectMeta
from dray.api.users import User
from dray.api.wire import Tree, Wire
from dray.client.address import name_in, namespace_in, required_name
from dray.client.codec import Codec
from dray.client.interface import Batch, Object, Page, T, WatchEvent, resource_of


class BackendState(Protocol):
    """A state of an object as the server stores it."""

    @property
    def object(self) -> Any:
        """The typed object, which is shared."""


class BackendAnswer(Protocol):
    """What the server answers: one of an object, a list, or a tree that has no stored form."""

    @property
    def version(self) -> BackendState | None: ...
    @property
    def tree(self) -> Tree | None: ...
    @property
    def items(self) -> Sequence[Any]: ...
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

    def answer(self, call: AnsweredCall) -> Awaitable[BackendAnswer]: ...

    def follow(self, call: WatchCall) -> AsyncGenerator[Sequence[BackendChange], None]: ...


class InProcess:
    """A `Client` for a server in this process. The server takes trees over: do not touch them after a call."""

    def __init__(self, server: Backend, user: User, *, user_agent: str = "dray") -> None:
        self._server = server
        self._caller = Caller(user, user_agent)

    async def serves(self, type_: type[Object]) -> bool:
        return True  # gates close the paths to a resource, not the way through the process

    async def aclose(self) -> None:
        """Nothing is held."""

    async def get(self, type_: type[T], name: str, namespace: str = "") -> T:
        resource = resource_of(type_)
        required_name(resource, name)
        call = GetCall(self._caller, resource, namespace, name)
        found: T = _object(call, await self._server.answer(call))
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
        call = ListCall(
            self._caller,
            resource_of(type_),
            namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            continue_=continue_,
            resource_version=resource_version,
        )
        answer = await self._server.answer(call)
        return Page(tuple(answer.items), str(answer.revision), answer.continue_token, answer.remaining)

    async def create(
        self, type_: type[T], obj: Object | Tree, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> T:
        resource = resource_of(type_)
        namespace = namespace_in(resource, obj, namespace)
        name = name if subresource else ""
        call = CreateCall(self._caller, resource, namespace, name, subresource, body=cast(Tree | Wire, obj))
        made: T = _object(call, await self._server.answer(call))
        return made

    async def update(
        self, type_: type[T], tree: Tree, *, namespace: str = "", name: str = "", subresource: str = ""
    ) -> T:
        resource = resource_of(type_)
        namespace, name = namespace_in(resource, tree, namespace), name_in(resource, tree, name)
        call = UpdateCall(self._caller, resource, namespace, name, subresource, tree=tree)
        written: T = _object(call, await self._server.answer(call))
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
        place = self._caller, resource, namespace, name, subresource
        call = PatchCall(*place, patch=patch, kind=kind, manager=manager, force=force)
        written: T = _object(call, await self._server.answer(call))
        return written

    async def patch_status(self, obj: T, status: Any) -> T:
        resource, meta = resource_of(type(obj)), obj.metadata
        wanted = replace(cast(Wire, obj), status=status)
        call = StatusCall(self._caller, resource, meta.namespace, meta.name, wanted=wanted)
        written: T = _object(call, await self._server.answer(call))
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
        call = DeleteCall(
            self._caller,
            resource,
            namespace,
            name,
            uid=uid or "",
            resource_version=resource_version or "",
            grace=grace,
            propagation=propagation or "",
        )
        await self._server.answer(call)

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
        call = DeleteCollectionCall(
            self._caller,
            resource_of(type_),
            namespace,
            labels=labels,
            fields=fields,
            grace=grace,
            propagation=propagation or "",
        )
        await self._server.answer(call)

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
        call = WatchCall(
            self._caller,
            resource_of(type_),
            namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            bookmarks=bookmarks,
            timeout=timeout,
        )
        async with aclosing(self._server.follow(call)) as batches:
            async for batch in batches:
                yield [_event(type_, change) for change in batch]


def _object(call: AnsweredCall, answer: BackendAnswer) -> Any:
    """The object that the server answers with."""
    version = answer.version
    if version is not None:
        return version.object
    resource = call.resource
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
