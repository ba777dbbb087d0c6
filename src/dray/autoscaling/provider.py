"""Provider protocol: a source of nodes, and the data exchanged with it. No I/O.

A provider knows groups by name. `increase` orders nodes, which arrive later; `delete` returns nodes, including those
that never arrived. The planner knows nothing else, so the simulated provider (`simulated`) and a real one behind gRPC
(`external`) are interchangeable.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec


class InstanceState(StrEnum):
    """State of an instance at its provider."""

    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"


class Instance(msgspec.Struct, frozen=True):
    """A node as its provider knows it. `id` is the node's `spec.providerID`; `error` says why it does not arrive."""

    id: str
    state: InstanceState = InstanceState.RUNNING
    error: str = ""


class GroupStatus(msgspec.Struct, frozen=True):
    """State of a group at its provider. `target` counts existing and ordered nodes."""

    name: str
    min: int
    max: int
    target: int
    instances: tuple[Instance, ...] = ()


class ProviderNodeName(msgspec.Struct, frozen=True):
    """Provider ID and node name; the name is empty until the node registers."""

    name: str
    provider_id: str


class ProviderError(Exception):
    """The provider refused or could not be reached. The message says why."""


class Provider(Protocol):
    """Source of nodes in groups. Each method raises ProviderError."""

    async def groups(self) -> Sequence[GroupStatus]:
        """Return the current state of all groups."""
        ...

    async def increase(self, group: str, count: int) -> None:
        """Order `count` more nodes of a group."""
        ...

    async def delete(self, group: str, nodes: Sequence[ProviderNodeName]) -> None:
        """Delete nodes of a group and reduce its target size accordingly."""
        ...
