"""The custom resources that are served: what routing, discovery and controllers of this server ask.

Follows the definitions in the cache and holds a `Resource` for each that is established. Left out: deciding that
(`establishing`), which is a write like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from dray.api.custom import custom_resource
from dray.api.resources import BY_TYPE, Resource
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.apiserver.read.storage import Storage
from dray.store import Closed, Event

ByVersion = dict[tuple[str, str], dict[str, Resource]]  # group and version → plural name
DEFINITIONS = BY_TYPE[CustomResourceDefinition]


def holds(definition: CustomResourceDefinition, condition: str) -> bool:
    """Whether a condition of a definition is true."""
    return any(c.type == condition and c.status == "True" for c in definition.status.conditions or ())


class Definitions:
    """The established definitions of one server, as resources."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._by_name: dict[str, Resource] = {}
        self._index: ByVersion | None = None  # made when it is asked for: definitions come by the hundred
        self._listeners: list[Callable[[str], None]] = []
        self.changes = 0  # counts up whenever what is served changes

    def start(self) -> None:
        """Read what is there, and follow what changes."""
        cache = self._storage.cache
        page = cache.list(DEFINITIONS.prefix)
        for version in page.versions:
            self._put(cast(CustomResourceDefinition, version.object))
        cache.subscribe(DEFINITIONS.prefix, page.revision, self._follow, self._lost)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Tell somebody the names of definitions that change."""
        self._listeners.append(listener)

    def find(self, group: str, plural: str) -> Resource | None:
        return self._by_name.get(f"{plural}.{group}")

    def of_kind(self, group: str, kind: str) -> Resource | None:
        """The resource of a kind."""
        return next((one for one in self._by_name.values() if (one.group, one.kind) == (group, kind)), None)

    def plurals(self, group: str, version: str) -> Mapping[str, Resource] | None:
        """What is served in one version of a group, by plural name."""
        return self._by_version.get((group, version))

    @property
    def _by_version(self) -> ByVersion:
        if self._index is None:
            self._index = {}
            for resource in self._by_name.values():
                for version in resource.versions:
                    self._index.setdefault((resource.group, version), {})[resource.plural] = resource
        return self._index

    @property
    def groups(self) -> set[str]:
        return {group for group, _ in self._by_version}

    @property
    def served(self) -> dict[Resource, Sequence[str]]:
        return {resource: resource.versions for resource in self._by_name.values() if resource.versions}

    def resources(self) -> list[Resource]:
        return list(self._by_name.values())

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            name = event.version.key.removeprefix(DEFINITIONS.prefix)
            if event.version.value is None:
                self._drop(name)
            else:
                self._put(cast(CustomResourceDefinition, event.version.object))
            for listener in self._listeners:
                listener(name)

    def _lost(self, reason: Exception) -> None:
        """The cache begins again: everything may have changed."""
        if not isinstance(reason, Closed):
            asyncio.get_running_loop().call_soon(self._begin_again)

    def _begin_again(self) -> None:
        for name in list(self._by_name):
            self._drop(name)
        with contextlib.suppress(Closed):
            self.start()

    def _put(self, definition: CustomResourceDefinition) -> None:
        name, known = definition.metadata.name, self._by_name.get(definition.metadata.name)
        if not holds(definition, "Established"):
            self._drop(name)
        elif known is None or _differs(known, definition):
            self._drop(name)
            self._by_name[name] = custom_resource(definition, known.custom if known is not None else None)
            self._changed()

    def _drop(self, name: str) -> None:
        known = self._by_name.pop(name, None)
        if known is not None and known.custom is not None:
            known.custom.forget()
            self._changed()

    def _changed(self) -> None:
        self.changes += 1
        self._index = None


def _differs(resource: Resource, definition: CustomResourceDefinition) -> bool:
    known = resource.custom
    if known is None:
        return True
    old = known.definition
    names = old.status.acceptedNames != definition.status.acceptedNames
    return names or old.spec != definition.spec or is_ending(old) != is_ending(definition)


def is_ending(definition: CustomResourceDefinition) -> bool:
    return definition.metadata.deletionTimestamp is not None
