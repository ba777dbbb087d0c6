"""Served custom resources, for routing, discovery and controllers of this server.

Follows the definitions in the cache and has a `Resource` for each established one. Large schemas are compiled in the
worker thread; until then the previous state is served. `establishing` decides which definitions are established.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from dray.api.custom import CustomKind, custom_resource
from dray.api.resources import BY_TYPE, Resource
from dray.api.types.apiextensions import CustomResourceDefinition
from dray.apiserver.limits import LARGE
from dray.apiserver.read.storage import Storage
from dray.background.thread import in_thread
from dray.store import Closed, StoreEvent

ByVersion = dict[tuple[str, str], dict[str, Resource]]  # (group, version) → plural name
DEFINITIONS = BY_TYPE[CustomResourceDefinition]


def holds(definition: CustomResourceDefinition, condition: str) -> bool:
    """Return whether a condition of a definition is true."""
    return any(c.type == condition and c.status == "True" for c in definition.status.conditions or ())


class Definitions:
    """The established definitions of one server, as resources."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._by_name: dict[str, Resource] = {}
        self._index: ByVersion | None = None  # built on demand, because hundreds of definitions may arrive at once
        self._listeners: list[Callable[[str], None]] = []
        self._served_listeners: list[Callable[[], None]] = []
        self._unready: dict[str, CustomResourceDefinition] = {}  # large definitions whose schemas are not compiled yet
        self._readying: asyncio.Task[None] | None = None
        # compiled schemas of large definitions that are about to be established
        self._prepared: dict[str, CustomKind] = {}

    def start(self) -> None:
        """Read all definitions from the cache and follow their changes."""
        cache = self._storage.cache
        page = cache.list(DEFINITIONS.prefix)
        for version in page.versions:
            self._put(cast(CustomResourceDefinition, version.object), is_large=False)
        cache.subscribe(DEFINITIONS.prefix, page.revision, self._follow, self._lost)

    async def close(self) -> None:
        if self._readying is not None:
            self._readying.cancel()
            await asyncio.gather(self._readying, return_exceptions=True)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with the name of each definition that changes."""
        self._listeners.append(listener)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the served resources change."""
        self._served_listeners.append(listener)

    def find(self, group: str, plural: str) -> Resource | None:
        """Return the resource with this group and plural name, or None if no established definition has them."""
        return self._by_name.get(f"{plural}.{group}")

    def of_kind(self, group: str, kind: str) -> Resource | None:
        """Return the resource of a kind, or None if no established definition has it."""
        return next((one for one in self._by_name.values() if (one.group, one.kind) == (group, kind)), None)

    def plurals(self, group: str, version: str) -> Mapping[str, Resource] | None:
        """Return the resources in one version of a group by plural name, or None if there are none."""
        return self._by_version.get((group, version))

    @property
    def _by_version(self) -> ByVersion:
        """Resources by group and version, then plural name; rebuilt after changes."""
        if self._index is None:
            self._index = {}
            for resource in self._by_name.values():
                for version in resource.versions:
                    self._index.setdefault((resource.group, version), {})[resource.plural] = resource
        return self._index

    @property
    def groups(self) -> set[str]:
        """API groups with served versions."""
        return {group for group, _ in self._by_version}

    @property
    def served(self) -> dict[Resource, Sequence[str]]:
        """Served versions of each resource."""
        return {resource: resource.versions for resource in self._by_name.values() if resource.versions}

    def resources(self) -> list[Resource]:
        """Return all established resources."""
        return list(self._by_name.values())

    def _follow(self, events: Sequence[StoreEvent]) -> None:
        """Apply changed definitions from the cache and notify the listeners."""
        for event in events:
            name, value = event.version.key.removeprefix(DEFINITIONS.prefix), event.version.value
            self._unready.pop(name, None)
            if value is None:
                self._serve(name, None)
            else:
                self._put(cast(CustomResourceDefinition, event.version.object), is_large=len(value) > LARGE)
            self._discard(name, self._prepared.pop(name, None))
            for listener in self._listeners:
                listener(name)

    def _lost(self, reason: Exception) -> None:
        """Read all definitions again after a restart of the cache."""
        if not isinstance(reason, Closed):
            asyncio.get_running_loop().call_soon(self._begin_again)

    def _begin_again(self) -> None:
        """Drop all resources and read all definitions from the cache again."""
        self._unready.clear()
        for name in list(self._by_name):
            self._serve(name, None)
        with contextlib.suppress(Closed):
            self.start()

    def _put(self, definition: CustomResourceDefinition, *, is_large: bool) -> None:
        """Serve a new or changed definition. A large one is served after its schemas are compiled."""
        name = definition.metadata.name
        known = self._by_name.get(name)
        ready = known.custom if known is not None else self._prepared.get(name)
        if is_large and holds(definition, "Established") and (ready is None or not ready.describes(definition)):
            self._unready[name] = definition
            self._readying = self._readying or asyncio.create_task(self._ready(), name="large definitions")
        else:
            self._serve(name, _resource(definition, known, ready))

    async def prepare(self, name: str) -> None:
        """Compile the schemas of a large definition, so that it is served as soon as it is established."""
        found = self._storage.cache.get(DEFINITIONS.key("", name))
        if found is not None and len(found.value or b"") > LARGE:
            kind = CustomKind(cast(CustomResourceDefinition, found.object))
            await in_thread("", _ready_schemas, kind)
            self._discard(name, self._prepared.pop(name, None))
            self._prepared[name] = kind

    async def _ready(self) -> None:
        """Compile large definitions in the worker thread and serve each unless it has changed again."""
        while self._unready:
            name, definition = next(iter(self._unready.items()))
            kind = CustomKind(definition)
            await in_thread("", _ready_schemas, kind)
            if self._unready.get(name) is definition:
                del self._unready[name]
                self._serve(name, _resource(definition, self._by_name.get(name), kind))
            self._discard(name, kind)
        self._readying = None

    def _discard(self, name: str, kind: CustomKind | None) -> None:
        """Drop the compiled schemas of a kind unless they are served."""
        if kind is not None:
            served = self._by_name.get(name)
            kind.forget(served.custom if served is not None else None)

    def _serve(self, name: str, resource: Resource | None) -> None:
        """Replace the served resource of a definition; None removes it."""
        known = self._by_name.get(name)
        if resource is known:
            return
        if resource is None:
            del self._by_name[name]
        else:
            self._by_name[name] = resource
        if known is not None and known.custom is not None:
            known.custom.forget(resource.custom if resource is not None else None)
        self._index = None
        for changed in self._served_listeners:
            changed()


def _resource(
    definition: CustomResourceDefinition, known: Resource | None, ready: CustomKind | None
) -> Resource | None:
    """Return the resource of a definition: `known` if it is still valid, or None if it is not established.

    `ready` provides compiled schemas if they match.
    """
    if not holds(definition, "Established"):
        return None
    if known is not None and not _differs(known, definition):
        return known
    return custom_resource(definition, ready)


def _ready_schemas(kind: CustomKind) -> None:
    """Compile all schemas of a kind now."""
    for version in kind.versions:
        kind.message(version)


def _differs(resource: Resource, definition: CustomResourceDefinition) -> bool:
    """Return whether a definition differs from the one that a resource was made of."""
    known = resource.custom
    if known is None:
        return True
    old = known.definition
    names = old.status.acceptedNames != definition.status.acceptedNames
    return names or not known.describes(definition) or is_ending(old) != is_ending(definition)


def is_ending(definition: CustomResourceDefinition) -> bool:
    """Return whether a definition is being deleted."""
    return definition.metadata.deletionTimestamp is not None
