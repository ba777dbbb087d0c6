"""Admission: the plugins between authorization and the store, their order, and the request that they see.

The registry calls `Chain.admit` on the request's tree, decodes the tree into `request.object`, validates it, and
calls `Chain.validate`. The writes that plugins add to `request.writes` are committed atomically with the object. If
that commit fails because one of them has changed, the registry calls `Chain.revalidate` and commits again. Locks held
by a request are released after the commit, whether it succeeds or fails. Plugins change the tree only in `admit` and
read the object only in `validate`. A DELETE has neither tree nor object; deletecollection passes here once per
object. A post to a subresource has an object, and a tree only if webhooks or policies match it. A CONNECT (exec,
attach, port-forward, node proxy) has the connection's options as tree and object, and commits nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from dray.api.errors import Forbidden
from dray.api.resources import BY_TYPE, Resource
from dray.api.users import User
from dray.api.wire import Wire
from dray.apiserver.read.reader import LastChange, Reader, many
from dray.apiserver.security.authorization import refusal
from dray.background.turns import pause

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
_WRITES: tuple[Operation, ...] = ("CREATE", "UPDATE", "DELETE")
MaybeAwaitable = Awaitable[None] | None
AdmissionStep = Callable[["AdmissionRequest"], MaybeAwaitable]
StepsByRequest = dict[tuple[type[Wire], Operation], list[AdmissionStep]]


@dataclass(frozen=True)
class Write:
    """An additional object that is written together with the requested object."""

    resource: Resource
    namespace: str
    name: str
    tree: dict[str, Any]  # the whole object in the stored version
    expected: str  # resourceVersion that was read; "0" if the object must not exist


class AdmissionRequest(msgspec.Struct, eq=False):
    """One write during admission. Trees and objects are in the stored version."""

    user: User
    operation: Operation
    resource: Resource
    namespace: str = ""
    name: str = ""  # empty in a CREATE with generateName
    subresource: str = ""
    version: str = ""  # API version of the request; empty means the stored version
    tree: dict[str, Any] | None = None  # only this request uses it; `admit` may change it
    object: Wire | None = None  # decoded tree; set before `validate`
    old: Wire | None = None  # the existing object of an UPDATE or DELETE
    dry_run: bool = False
    options: dict[str, Any] = {}  # CreateOptions, UpdateOptions, DeleteOptions as a tree
    verb: str = ""  # of an UPDATE: update or patch
    awaited: bool = False  # a client of another process waits for the commit
    is_large: bool = False  # large object or patch: the event loop runs other work between two steps
    warnings: list[str] = []  # sent to the client
    writes: list[Write] = []
    held: AsyncExitStack | None = None  # locks held until after the commit; most requests have none

    async def hold(self, lock: AbstractAsyncContextManager[Any]) -> None:
        """Acquire a lock until `release`, which follows the commit."""
        if self.held is None:
            self.held = AsyncExitStack()
        await self.held.enter_async_context(lock)

    async def release(self) -> None:
        """Release all held locks."""
        held, self.held = self.held, None
        if held is not None:
            await held.aclose()

    def concerns(self, *types: type[Wire]) -> bool:
        """Return whether the object is of one of these types."""
        return self.resource.type in types

    def forbidden(self, text: str) -> Forbidden:
        """Return a Forbidden error that names the object."""
        return refusal(self.resource.group, self.resource.plural, self.name, text)


class AdmissionPlugin(Protocol):
    """An admission plugin. Either method may do nothing; both raise an ApiError to deny the request.

    Most plugins need not wait and are plain functions, because a coroutine costs more than their work.
    """

    @property
    def name(self) -> str: ...

    def admit(self, request: AdmissionRequest) -> MaybeAwaitable:
        """Mutate `request.tree` in place, before validation. Returns None, or an awaitable for remaining work."""

    def validate(self, request: AdmissionRequest) -> MaybeAwaitable:
        """Deny the request by raising an ApiError. Returns None, or an awaitable for remaining work.

        Changes nothing but `warnings`, `writes` and the held locks.
        """


@runtime_checkable
class Writing(Protocol):
    """A plugin that adds to `request.writes`."""

    async def write(self, request: AdmissionRequest) -> None:
        """Compute the additional writes again after one of them conflicted. May deny the request like `validate`."""


class Admission:
    """A plugin that does nothing. Plugins inherit from it and override what they need."""

    name = "AlwaysAdmit"
    types: tuple[type[Wire], ...] = ()  # types of objects that the plugin handles; empty: all
    operations: tuple[Operation, ...] = ()  # operations that the plugin handles; empty: all but CONNECT
    configured_by: tuple[type[Wire], ...] = ()  # types of objects that configure the plugin; empty: it is always active
    # Types of objects that `admit` depends on besides tree, namespace and gates; None: unknown.
    reads: tuple[type[Wire], ...] | None = None

    def admit(self, request: AdmissionRequest) -> MaybeAwaitable:
        return None

    def validate(self, request: AdmissionRequest) -> MaybeAwaitable:
        return None


def _concerned(plugin: AdmissionPlugin, type_: type[Wire], operation: Operation) -> bool:
    """Return whether a plugin handles a type and an operation."""
    types: tuple[type[Wire], ...] = getattr(plugin, "types", ())
    operations: tuple[Operation, ...] = getattr(plugin, "operations", ())
    return (not types or type_ in types) and operation in (operations or _WRITES)


def _configured_by(plugin: AdmissionPlugin) -> tuple[type[Wire], ...]:
    """Return the types of objects that configure a plugin; empty if it is always active."""
    found: tuple[type[Wire], ...] = getattr(plugin, "configured_by", ())
    return found


def _does(plugin: AdmissionPlugin, what: str) -> bool:
    """Return whether a plugin overrides a method of Admission."""
    return getattr(type(plugin), what, None) is not getattr(Admission, what)


class _Never:
    """Last change of a configuration that does not exist."""

    revision = 0


_NEVER = _Never()


class Chain:
    """All admission plugins, in their order.

    Calling a method that does nothing still costs time. Most plugins override only one method, for a few types of
    objects, so only the matching ones are called. With a reader, plugins without configuration objects in the cluster
    are skipped as well. In a cluster without webhooks, policies and limits, admission takes a thirtieth of the work
    on a pod with a claim.
    """

    def __init__(self, plugins: Sequence[AdmissionPlugin], reader: Reader | None = None) -> None:
        self.plugins = tuple(plugins)
        self._reader = reader
        configuration = [BY_TYPE[type_] for plugin in plugins for type_ in _configured_by(plugin)]
        self._configured = reader.last_change(*configuration) if reader is not None else _NEVER
        self._seen = -1  # revision of the configuration for which the following are valid
        self._admit: StepsByRequest = {}
        self._validate: StepsByRequest = {}
        self._reads: dict[tuple[type[Wire], Operation], tuple[LastChange, ...] | None] = {}

    async def admit(self, request: AdmissionRequest) -> None:
        """Let all plugins mutate the request, in order. Raises the ApiError of the first plugin that denies it."""
        if request.is_large:
            await pause(request.user.name)
        for admit in self._steps("admit", self._admit, request):
            if (waiting := admit(request)) is not None:
                await waiting

    def _steps(self, what: str, known: StepsByRequest, request: AdmissionRequest) -> list[AdmissionStep]:
        """Return the methods `what` of the plugins for the request's type and operation, in order."""
        if self._configured.revision != self._seen:
            self._start_over()
        key = (request.resource.type, request.operation)
        steps = known.get(key)
        if steps is None:
            steps = known[key] = [getattr(plugin, what) for plugin in self._at_work(what, *key)]
        return steps

    def _start_over(self) -> None:
        """Drop cached methods, which were found for another configuration."""
        self._seen = self._configured.revision
        self._admit.clear()
        self._validate.clear()
        self._reads.clear()

    def _at_work(self, what: str, type_: type[Wire], operation: Operation) -> list[AdmissionPlugin]:
        """Return the plugins that override method `what` for a type and operation and are not idle."""
        concerned = [plugin for plugin in self.plugins if _concerned(plugin, type_, operation)]
        return [plugin for plugin in concerned if _does(plugin, what) and not self._is_idle(plugin)]

    def _is_idle(self, plugin: AdmissionPlugin) -> bool:
        """Return whether a plugin has no configuration object in the cluster."""
        kinds, reader = _configured_by(plugin), self._reader
        return bool(kinds) and reader is not None and not any(True for kind in kinds for _ in many(reader, kind))

    def reads(self, type_: type[Wire], operation: Operation) -> tuple[LastChange, ...] | None:
        """Return the last changes of all objects that `admit` depends on, besides the tree.

        None if a plugin does not declare them.
        """
        if self._configured.revision != self._seen:
            self._start_over()
        key = (type_, operation)
        if key not in self._reads:
            self._reads[key] = self._read_by(self._at_work("admit", *key))
        return self._reads[key]

    def _read_by(self, plugins: list[AdmissionPlugin]) -> tuple[LastChange, ...] | None:
        """Return the last changes of the objects that plugins declare in `reads`.

        Returns None if a plugin does not declare them.
        """
        told: list[tuple[type[Wire], ...] | None] = [getattr(plugin, "reads", None) for plugin in plugins]
        known = [type_ for types in told if types is not None for type_ in types]
        if None in told or (known and self._reader is None):
            return None
        return tuple(self._reader.last_change(BY_TYPE[type_]) for type_ in known) if self._reader is not None else ()

    async def validate(self, request: AdmissionRequest) -> None:
        """Let all plugins validate the request.

        If one raises an error, releases the held locks and raises that error.
        """
        if request.is_large:
            await pause(request.user.name)
        try:
            for validate in self._steps("validate", self._validate, request):
                if (waiting := validate(request)) is not None:
                    await waiting
        except BaseException:
            await request.release()
            raise

    async def revalidate(self, request: AdmissionRequest) -> None:
        """Compute the additional writes again after a conflict. All other decisions stay valid."""
        request.writes.clear()
        for plugin in self.plugins:
            if isinstance(plugin, Writing):
                await plugin.write(request)

    async def aclose(self) -> None:
        """Close resources of plugins, such as connections to webhooks."""
        for plugin in self.plugins:
            if close := getattr(plugin, "aclose", None):
                await close()

    def without(self, names: Iterable[str]) -> Chain:
        """Return a chain without the named plugins. Raises ValueError for an unknown name."""
        disabled = set(names)
        if unknown := disabled - {plugin.name for plugin in self.plugins}:
            raise ValueError(f"unknown admission plugins: {', '.join(sorted(unknown))}")
        return Chain([plugin for plugin in self.plugins if plugin.name not in disabled], self._reader)
