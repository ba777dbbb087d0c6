"""What authentication, authorization and admission may know about the cluster.

They read the server's cache, synchronously, and learn from a counter whether an index that they derived from it is
still current. The server implements `Reader`; nothing here can write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar, cast

from dray.api.resources import BY_TYPE, Resource
from dray.api.wire import Wire

W = TypeVar("W", bound=Wire)


class LastChange(Protocol):
    """When some resources were last changed."""

    @property
    def revision(self) -> int:
        """Changes whenever an object of one of them was created, updated or deleted, and never goes back."""


class Reader(Protocol):
    """The server's cache, as its own guards see it."""

    def get(self, resource: Resource, namespace: str, name: str) -> Wire | None:
        """The typed object; the namespace of a cluster-wide resource is ""."""

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Wire]:
        """The typed objects of one namespace, or, without one, all of them."""

    def last_change(self, *resources: Resource) -> LastChange:
        """When one of these resources was last changed; asked once and kept, since every request looks at some."""


def one(reader: Reader, type_: type[W], namespace: str, name: str) -> W | None:
    """Read one object by its type."""
    found: W | None = reader.get(BY_TYPE[type_], namespace, name)  # type: ignore[assignment]  # it is of that type
    return found


def many(reader: Reader, type_: type[W], namespace: str = "") -> Iterable[W]:
    """Read all objects of a type, in one namespace or in all."""
    return cast("Iterable[W]", reader.list(BY_TYPE[type_], namespace))
