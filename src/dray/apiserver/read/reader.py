"""Read access to the cluster for authentication, authorization and admission.

They read the server's cache synchronously. A change counter tells them whether an index derived from the cache is
still valid. `Storage` implements `Reader`; writing is not possible here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar, cast

from dray.api.resources import BY_TYPE, Resource
from dray.api.wire import Wire

W = TypeVar("W", bound=Wire)


class LastChange(Protocol):
    """Change counter of some resources."""

    @property
    def revision(self) -> int:
        """Revision of the last create, update or deletion of an object. It never decreases."""


class Reader(Protocol):
    """Read access to the server's cache."""

    def get(self, resource: Resource, namespace: str, name: str) -> Wire | None:
        """Return the typed object, or None if it does not exist. The namespace of a cluster-scoped resource is ""."""

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Wire]:
        """Return the typed objects of one namespace, or all of them if the namespace is empty."""

    def last_change(self, *resources: Resource) -> LastChange:
        """Return the change counter of resources. Get it once and keep it."""


def one(reader: Reader, type_: type[W], namespace: str, name: str) -> W | None:
    """Return an object by its type, namespace and name, or None if it does not exist.

    The namespace of a cluster-scoped object is "".
    """
    found: W | None = reader.get(BY_TYPE[type_], namespace, name)  # type: ignore[assignment]  # it is of that type
    return found


def many(reader: Reader, type_: type[W], namespace: str = "") -> Iterable[W]:
    """Return all objects of a type, in one namespace or, if it is empty, in all."""
    return cast("Iterable[W]", reader.list(BY_TYPE[type_], namespace))
