"""What happens to a write between authorization and the store: the request, the plugins and their order.

The registry calls `Chain.admit` on the private tree before defaulting ends and validation begins, then decodes the tree
into `request.object`, validates it, and calls `Chain.validate`. What plugins put into `request.writes` is committed
atomically with the object. If the commit fails because one of those was changed meanwhile, the registry calls
`Chain.revalidate` and commits again. What a request holds is released after the commit, whatever came of it.
Plugins change the tree only in `admit`, and read the object only in `validate`. A DELETE has no tree and no object; a
deletion of a collection passes here once per object. What is posted to a
subresource has an object, and a tree only if webhooks or policies are about it. A CONNECT (exec, attach,
port-forward, the proxy of a node) has the options of the connection as its tree and object, and nothing is committed.
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
    """One more object that is written together with the one that was asked for."""

    resource: Resource
    namespace: str
    name: str
    tree: dict[str, Any]  # the stored form, whole
    expected: str  # the resourceVersion that was read; "0": it must not exist


class AdmissionRequest(msgspec.Struct, eq=False):
    """One write on its way into the store. Trees and objects are in the stored version."""

    user: User
    operation: Operation
    resource: Resource
    namespace: str = ""
    name: str = ""  # empty in a CREATE with generateName
    subresource: str = ""
    version: str = ""  # in which the client wrote; empty: the stored one
    tree: dict[str, Any] | None = None  # private: `admit` may change it
    object: Wire | None = None  # what the tree came to; set before `validate`
    old: Wire | None = None  # of UPDATE and DELETE
    dry_run: bool = False
    options: dict[str, Any] = {}  # CreateOptions, UpdateOptions, DeleteOptions as a tree
    verb: str = ""  # of an UPDATE: update or patch
    awaited: bool = False  # a client of another process waits for the commit
    is_large: bool = False  # the object, or what changes it: others have their turns between two steps
    warnings: list[str] = []  # sent to the client
    writes: list[Write] = []
    held: AsyncExitStack | None = None  # locks that last until after the commit; most requests have none

    async def hold(self, lock: AbstractAsyncContextManager[Any]) -> None:
        """Enter a lock that lasts until after the commit."""
        if self.held is None:
            self.held = AsyncExitStack()
        await self.held.enter_async_context(lock)

    async def release(self) -> None:
        """Leave what is held."""
        held, self.held = self.held, None
        if held is not None:
            await held.aclose()

    def concerns(self, *types: type[Wire]) -> bool:
        """Whether the request is about one of these kinds of object."""
        return self.resource.type in types

    def forbidden(self, text: str) -> Forbidden:
        """A refusal that names the object."""
        return refusal(self.resource.group, self.resource.plural, self.name, text)


class AdmissionPlugin(Protocol):
    """One admission plugin. Either method may do nothing; both raise an ApiError to refuse.

    Most have nothing to wait for, and are plain functions: a coroutine costs more than what they do.
    """

    @property
    def name(self) -> str: ...

    def admit(self, request: AdmissionRequest) -> MaybeAwaitable:
        """Change `request.tree` in place, before validation."""

    def validate(self, request: AdmissionRequest) -> MaybeAwaitable:
        """Refuse the request or let it pass; changes nothing but `warnings`, `writes` and what is held."""


@runtime_checkable
class Writing(Protocol):
    """A plugin that puts something into `request.writes`."""

    async def write(self, request: AdmissionRequest) -> None:
        """Decide again what is to be written, after somebody else has changed it. May refuse as `validate` may."""


class Admission:
    """A plugin that does nothing: what the plugins inherit so that each says only what it does."""

    name = "AlwaysAdmit"
    types: tuple[type[Wire], ...] = ()  # the kinds of object that it may have a say about; empty: all
    operations: tuple[Operation, ...] = ()  # the operations that it may have a say about; empty: all but CONNECT
    configured_by: tuple[type[Wire], ...] = ()  # the kinds of object that tell it what to do; empty: it knows by itself
    reads: tuple[type[Wire], ...] | None = (
        None  # what `admit` looks at beside tree, namespace and gates; None: who knows
    )

    def admit(self, request: AdmissionRequest) -> MaybeAwaitable:
        return None

    def validate(self, request: AdmissionRequest) -> MaybeAwaitable:
        return None


def _concerned(plugin: AdmissionPlugin, type_: type[Wire], operation: Operation) -> bool:
    """Whether a plugin may have a say; one that does not tell may always."""
    types: tuple[type[Wire], ...] = getattr(plugin, "types", ())
    operations: tuple[Operation, ...] = getattr(plugin, "operations", ())
    return (not types or type_ in types) and operation in (operations or _WRITES)


def _configured_by(plugin: AdmissionPlugin) -> tuple[type[Wire], ...]:
    found: tuple[type[Wire], ...] = getattr(plugin, "configured_by", ())
    return found


def _does(plugin: AdmissionPlugin, what: str) -> bool:
    """Whether a plugin does anything in a step."""
    return getattr(type(plugin), what, None) is not getattr(Admission, what)


class _Never:
    """The last change of a configuration that there is none of."""

    revision = 0


_NEVER = _Never()


class Chain:
    """The plugins in their order.

    A step that does nothing still costs. Most plugins do only one of the two, for a few kinds of object; with a reader,
    those that no object of the cluster tells what to do are left out until one does. Where there are neither webhooks,
    policies nor limits, they are a thirtieth of the work on a pod with a claim.
    """

    def __init__(self, plugins: Sequence[AdmissionPlugin], reader: Reader | None = None) -> None:
        self.plugins = tuple(plugins)
        self._reader = reader
        configuration = [BY_TYPE[type_] for plugin in plugins for type_ in _configured_by(plugin)]
        self._configured = reader.last_change(*configuration) if reader is not None else _NEVER
        self._seen = -1  # the revision of the configuration that these are for:
        self._admit: StepsByRequest = {}
        self._validate: StepsByRequest = {}
        self._reads: dict[tuple[type[Wire], Operation], tuple[LastChange, ...] | None] = {}

    async def admit(self, request: AdmissionRequest) -> None:
        if request.is_large:
            await pause(request.user.name)
        for admit in self._steps("admit", self._admit, request):
            if (waiting := admit(request)) is not None:
                await waiting

    def _steps(self, what: str, known: StepsByRequest, request: AdmissionRequest) -> list[AdmissionStep]:
        """What the plugins do about one kind of object and operation, in their order."""
        if self._configured.revision != self._seen:
            self._start_over()
        key = (request.resource.type, request.operation)
        steps = known.get(key)
        if steps is None:
            steps = known[key] = [getattr(plugin, what) for plugin in self._at_work(what, *key)]
        return steps

    def _start_over(self) -> None:
        """Forget what was found for another configuration."""
        self._seen = self._configured.revision
        self._admit.clear()
        self._validate.clear()
        self._reads.clear()

    def _at_work(self, what: str, type_: type[Wire], operation: Operation) -> list[AdmissionPlugin]:
        """The plugins that do something in a step."""
        concerned = [plugin for plugin in self.plugins if _concerned(plugin, type_, operation)]
        return [plugin for plugin in concerned if _does(plugin, what) and not self._is_idle(plugin)]

    def _is_idle(self, plugin: AdmissionPlugin) -> bool:
        kinds, reader = _configured_by(plugin), self._reader
        return bool(kinds) and reader is not None and not any(True for kind in kinds for _ in many(reader, kind))

    def reads(self, type_: type[Wire], operation: Operation) -> tuple[LastChange, ...] | None:
        """What else decides, beside a tree, what admission makes of it; None where a plugin does not tell."""
        if self._configured.revision != self._seen:
            self._start_over()
        key = (type_, operation)
        if key not in self._reads:
            self._reads[key] = self._read_by(self._at_work("admit", *key))
        return self._reads[key]

    def _read_by(self, plugins: list[AdmissionPlugin]) -> tuple[LastChange, ...] | None:
        told: list[tuple[type[Wire], ...] | None] = [getattr(plugin, "reads", None) for plugin in plugins]
        known = [type_ for types in told if types is not None for type_ in types]
        if None in told or (known and self._reader is None):
            return None
        return tuple(self._reader.last_change(BY_TYPE[type_]) for type_ in known) if self._reader is not None else ()

    async def validate(self, request: AdmissionRequest) -> None:
        """Raises whatever the first plugin that refuses raises; nothing is held then."""
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
        """Redo, after a conflict, the writes that are out of date; all else still holds."""
        request.writes.clear()
        for plugin in self.plugins:
            if isinstance(plugin, Writing):
                await plugin.write(request)

    async def aclose(self) -> None:
        """Give back what plugins hold, such as connections to webhooks."""
        for plugin in self.plugins:
            if close := getattr(plugin, "aclose", None):
                await close()

    def without(self, names: Iterable[str]) -> Chain:
        """The chain without the plugins of these names. Raises ValueError for a name that no plugin has."""
        disabled = set(names)
        if unknown := disabled - {plugin.name for plugin in self.plugins}:
            raise ValueError(f"unknown admission plugins: {', '.join(sorted(unknown))}")
        return Chain([plugin for plugin in self.plugins if plugin.name not in disabled], self._reader)
