"""Holding a part up just before it writes, so that a test decides who comes first.

Races that take luck otherwise are walked step by step: let a part run into a write, do something else, let it go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import msgspec

from dray.client import Client
from tests.waiting import within

WRITES = ("create", "update", "patch", "delete")


class Write(NamedTuple):
    """What a part is about to write."""

    verb: str
    type: type
    name: str
    tree: Any
    subresource: str

    @property
    def allocates(self) -> bool:
        """Whether it writes an allocation into a claim."""
        return bool(self.changes.get("allocation"))

    @property
    def deallocates(self) -> bool:
        return "allocation" in self.changes and not self.changes["allocation"]

    @property
    def changes(self) -> dict[str, Any]:
        """The fields of a status that it changes, with their new values."""
        return self.tree if self.subresource == "status" and isinstance(self.tree, dict) else {}

    @property
    def protects(self) -> bool:
        """Whether it adds finalizers to an object."""
        return self.verb == "patch" and not self.subresource and bool(self.tree["metadata"].get("finalizers"))

    @property
    def binds(self) -> bool:
        return self.subresource == "binding"


Hook = Callable[[Write], Awaitable[None]]


class Hold:
    """Stops the first write that it is about, until it is let go."""

    def __init__(self, about: Callable[[Write], bool], times: int = 1) -> None:
        self._about = about
        self._times = times
        self._reached = asyncio.Event()
        self._go = asyncio.Event()
        self.seen: list[Write] = []

    async def __call__(self, write: Write) -> None:
        self.seen.append(write)
        if self._times and self._about(write):
            self._times -= 1
            self._reached.set()
            await self._go.wait()

    async def reached(self) -> None:
        await within(self._reached.wait())

    def go(self) -> None:
        self._go.set()


def meanwhile(about: Callable[[Write], bool], act: Callable[[], Awaitable[object]]) -> Hook:
    """Does something just before the first write that it is about."""
    pending = [act]

    async def hook(write: Write) -> None:
        if pending and about(write):
            await pending.pop()()

    return hook


def in_turn(*holds: Hold) -> Hook:
    """Several holds on one part."""

    async def hook(write: Write) -> None:
        for hold in holds:
            await hold(write)

    return hook


def interposed(client: Client, hook: Hook) -> Client:
    """The same client, which asks the hook before each write."""
    return cast(Client, _Interposed(client, hook))


class _Interposed:
    def __init__(self, client: Client, hook: Hook) -> None:
        self._client = client
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name == "patch_status":
            return self._patch_status
        if name not in WRITES:
            return method

        async def write(type_: type, *arguments: Any, **options: Any) -> Any:
            named = name in ("patch", "delete")
            target = arguments[0] if named else options.get("name", "")
            tree = arguments[1] if name == "patch" else None if named else arguments[0]
            plain = msgspec.to_builtins(tree)  # parts of it may be typed
            await self._hook(Write(name, type_, target, plain, options.get("subresource", "")))
            return await method(type_, *arguments, **options)

        return write

    async def _patch_status(self, obj: Any, status: Any) -> Any:
        before, after = (msgspec.to_builtins(one) for one in (obj.status, status))
        changes = {name: after.get(name) for name in before | after if before.get(name) != after.get(name)}
        await self._hook(Write("patch", type(obj), obj.metadata.name, changes, "status"))
        return await self._client.patch_status(obj, status)
