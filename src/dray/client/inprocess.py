"""In-process client: calls the API server of the same process as one user, with the same checks as over HTTP.

Objects and lists are shared with the server and immutable; nothing is encoded or copied. A call that the server
answers from memory never leaves the caller's task. The server is known only by a protocol (`Backend`), so this
package does not import it. Container logs are only available over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any, Protocol, cast

from dray.api.calls import AnsweredByObject, AnsweredCall, AnyDeleteCall, Caller, ListCall, WatchCall
from dray.api.resources import Resource
from dray.api.types.meta import ObjectMeta
from dray.api.users import User
from dray.api.wire import Tree
from dray.client.codec import Codec
from dray.client.interface import Client, EventBatch, Object, Page, T, WatchEvent


class BackendState(Protocol):
    """A stored state of an object."""

    @property
    def object(self) -> Any:
        """The typed object, shared with the server."""


class BackendAnswer(Protocol):
    """Response of the server: an object, a list, or a tree without a stored form."""

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
    """Methods of an API server that this client needs."""

    def answer(self, caller: Caller, call: AnsweredCall) -> Awaitable[BackendAnswer]: ...

    def follow(self, caller: Caller, call: WatchCall) -> AsyncGenerator[Sequence[BackendChange], None]: ...


class InProcess(Client):
    """A `Client` for a server in this process. Callers must not use a tree after passing it to a call."""

    def __init__(self, server: Backend, user: User, *, user_agent: str = "dray") -> None:
        self._server = server
        self._caller = Caller(user, user_agent)

    async def serves(self, type_: type[Object]) -> bool:
        return True  # feature gates only disable HTTP paths, not in-process access

    async def aclose(self) -> None:
        """Do nothing: this client holds no resources."""

    async def _object(self, call: AnsweredByObject) -> Any:
        answer = await self._server.answer(self._caller, call)
        version = answer.version
        if version is not None:
            return version.object
        resource = call.resource
        codec = _known_codec(resource) if resource.custom is None else _codec(resource)  # definitions can be deleted
        return codec.typed(answer.tree or {})

    async def _page(self, call: ListCall) -> Page[Any]:
        answer = await self._server.answer(self._caller, call)
        return Page(tuple(answer.items), str(answer.revision), answer.continue_token, answer.remaining)

    async def _delete(self, call: AnyDeleteCall) -> None:
        await self._server.answer(self._caller, call)

    async def _changes(self, type_: type[T], call: WatchCall) -> AsyncGenerator[EventBatch[T], None]:
        async with aclosing(self._server.follow(self._caller, call)) as batches:
            async for batch in batches:
                yield [_event(type_, change) for change in batch]


def _codec(resource: Resource) -> Codec:
    return Codec(resource, resource.stored)


_known_codec = cache(_codec)


def _event(type_: type[T], change: BackendChange) -> WatchEvent[T]:
    obj = change.object
    version = str(change.revision)
    if obj is None:
        obj = cast(Any, type_)(metadata=ObjectMeta(resourceVersion=version))
    return WatchEvent(change.type, obj, version)
