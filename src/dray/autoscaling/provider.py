"""Who has nodes to give: a small protocol, and what is said in it. Pure.

A provider knows groups by name. `increase` orders nodes, which come in their own time; `delete` takes nodes back, also
those that never came. Whoever plans knows nothing else of it: the simulated provider (`simulated`) and a real one behind
gRPC (`external`) are the same to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec


class InstanceState(StrEnum):
    """How far a node has come."""

    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"


class Instance(msgspec.Struct, frozen=True):
    """A node as its provider knows it. `id` is the node's `spec.providerID`; `error` is why it does not come."""

    id: str
    state: InstanceState = InstanceState.RUNNING
    error: str = ""


class GroupStatus(msgspec.Struct, frozen=True):
    """A group as its provider has it; `target` counts the nodes that are there and those on order."""

    name: str
    min: int
    max: int
    target: int
    instances: tuple[Instance, ...] = ()


class ProviderNodeName(msgspec.Struct, frozen=True):
    """A node in the words of both sides; of a node that never came, only the provider's."""

    name: str
    provider_id: str


class ProviderError(Exception):
    """A provider refused, or could not be asked; says why."""


class Provider(Protocol):
    """Has groups of nodes. Each method raises ProviderError."""

    async def groups(self) -> Sequence[GroupStatus]:
        """All groups as they are now."""
        ...

    async def increase(self, group: str, count: int) -> None:
        """Order so many more nodes of a group."""
        ...

    async def delete(self, group: str, nodes: Sequence[ProviderNodeName]) -> None:
        """Take nodes of a group back, and make the group smaller by as many."""
        ...
