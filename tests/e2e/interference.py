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
        return self.subresource == "status" and bool((self.tree.get("status") or {}).get("allocation"))

    @property
    def deallocates(self) -> bool:
        status = self.tree.get("status") or {} if isinstance(self.tree, dict) else {}
        return self.subresource == "status" and "allocation" in status and status["allocation"] is None

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
