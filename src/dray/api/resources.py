"""Registry of all kinds, found by type, name or kind. The modules of `dray.api.kinds` are the only list of kinds.

A module is loaded when its kind is first requested, so a client loads only the kinds it uses. A lookup by plural
name, or iteration, loads all. Discovery, routing, storage keys, OpenAPI, clients and controllers use this
registry.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TypeVar, overload

from dray.api import kinds
from dray.api.kind import (
    ADMISSION,
    AUTHENTICATION,
    AUTHORIZATION,
    DRA,
    EXTENSIONS,
    FLOWCONTROL,
    METRICS,
    NETWORKING,
    RBAC,
    REGISTRATION,
    SCHEDULING,
    STORAGE,
    Resource,
)
from dray.api.wire import Wire

__all__ = [
    "ADMISSION",
    "AUTHENTICATION",
    "AUTHORIZATION",
    "BY_KIND",
    "BY_NAME",
    "BY_TYPE",
    "DRA",
    "EXTENSIONS",
    "FLOWCONTROL",
    "METRICS",
    "NETWORKING",
    "RBAC",
    "REGISTRATION",
    "RESOURCES",
    "SCHEDULING",
    "STORAGE",
    "Resource",
]

K = TypeVar("K", bound=Hashable)

# Order of API groups: clients resolve an ambiguous short name to the first group. Other groups come last.
_GROUPS = (
    "",
    "events.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "apps",
    "batch",
    "autoscaling",
    "policy",
    RBAC,
    ADMISSION,
    AUTHENTICATION,
    AUTHORIZATION,
    "certificates.k8s.io",
    FLOWCONTROL,
    EXTENSIONS,
    REGISTRATION,
    STORAGE,
    NETWORKING,
    METRICS,
    "node.k8s.io",
    SCHEDULING,
    DRA,
)
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def file_of(kind: str) -> str:
    """Return the module name of a kind.

    >>> [file_of(kind) for kind in ("Pod", "ResourceClaim", "CSIDriver", "ServiceCIDR")]
    ['pod', 'resource_claim', 'csi_driver', 'service_cidr']
    """
    return _WORD.sub("_", kind).lower()


@cache
def _files() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(kinds.__path__))


@cache
def _load(file: str) -> tuple[Resource, ...]:
    """Return the resources defined in a module: one, or two if it also defines an alias."""
    module = import_module(f"{kinds.__name__}.{file}")
    alias = getattr(module, "ALIAS", None)
    return (module.KIND,) if alias is None else (module.KIND, alias)


@cache
def _load_all() -> tuple[Resource, ...]:
    found = [resource for file in _files() for resource in _load(file)]
    rank = {group: at for at, group in enumerate(_GROUPS)}
    return tuple(sorted(found, key=lambda r: (rank.get(r.group, len(rank)), r.group, r.plural)))


class _AllResources(Sequence[Resource]):
    """Sequence of all resources, sorted by group and name."""

    @overload
    def __getitem__(self, at: int) -> Resource: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Resource]: ...
    def __getitem__(self, at: int | slice) -> Resource | Sequence[Resource]:
        return _load_all()[at]

    def __iter__(self) -> Iterator[Resource]:
        return iter(_load_all())

    def __len__(self) -> int:
        return len(_load_all())


class _ResourceIndex(Mapping[K, Resource]):
    """Mapping of keys to resources. `kind_of` returns the kind of a key, so that only one module must be loaded."""

    def __init__(self, key_of: Callable[[Resource], K], kind_of: Callable[[K], str] | None = None) -> None:
        self._key_of = key_of
        self._kind_of = kind_of
        self._known: dict[K, Resource] = {}

    def __getitem__(self, key: K) -> Resource:
        try:
            return self._known[key]
        except KeyError:
            return self._find(key)

    def _find(self, key: K) -> Resource:
        if self._kind_of is None:
            return self._everything()[key]
        file = file_of(self._kind_of(key))
        if file in _files():
            self._known.update((self._key_of(resource), resource) for resource in _load(file))
        return self._known[key]

    def _everything(self) -> dict[K, Resource]:
        if len(self._known) < len(_load_all()):
            self._known.update((self._key_of(resource), resource) for resource in _load_all())
        return self._known

    def __iter__(self) -> Iterator[K]:
        return iter(self._everything())

    def __len__(self) -> int:
        return len(self._everything())


RESOURCES: Sequence[Resource] = _AllResources()
BY_TYPE: Mapping[type[Wire], Resource] = _ResourceIndex(lambda resource: resource.type, lambda type_: type_.__name__)
BY_NAME: Mapping[tuple[str, str], Resource] = _ResourceIndex(lambda resource: (resource.group, resource.plural))
BY_KIND: Mapping[tuple[str, str], Resource] = _ResourceIndex(lambda r: (r.group, r.kind), lambda key: key[1])
