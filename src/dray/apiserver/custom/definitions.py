"""The custom resources that are served: what routing, discovery and controllers of this server ask.

Follows the definitions in the cache and holds a `Resource` for each that is established. The schema of a large one is made
ready beside the event loop; until then what was served before is served. Left out: deciding what is established
(`establishing`), which is a write like any other.
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
        self._served_listeners: list[Callable[[], None]] = []
        self._unready: dict[str, CustomResourceDefinition] = {}  # large ones whose schemas are still to be made
        self._readying: asyncio.Task[None] | None = None
        self._prepared: dict[str, CustomKind] = {}  # large ones that are about to be established

    def start(self) -> None:
        """Read what is there, and follow what changes."""
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
        """Tell somebody the names of definitions that change."""
        self._listeners.append(listener)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Tell somebody that what is served has changed."""
        self._served_listeners.append(listener)

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

    def _follow(self, events: Sequence[StoreEvent]) -> None:
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
        """The cache begins again: everything may have changed."""
        if not isinstance(reason, Closed):
            asyncio.get_running_loop().call_soon(self._begin_again)

    def _begin_again(self) -> None:
        self._unready.clear()
        for name in list(self._by_name):
            self._serve(name, None)
        with contextlib.suppress(Closed):
            self.start()

    def _put(self, definition: CustomResourceDefinition, *, is_large: bool) -> None:
        name = definition.metadata.name
        known = self._by_name.get(name)
        ready = known.custom if known is not None else self._prepared.get(name)
        if is_large and holds(definition, "Established") and (ready is None or not ready.describes(definition)):
            self._unready[name] = definition
            self._readying = self._readying or asyncio.create_task(self._ready(), name="large definitions")
        else:
            self._serve(name, _resource(definition, known, ready))

    async def prepare(self, name: str) -> None:
        """Make the schemas of a large definition ready, so that it is served as soon as it is established."""
        found = self._storage.cache.get(DEFINITIONS.key("", name))
        if found is not None and len(found.value or b"") > LARGE:
            kind = CustomKind(cast(CustomResourceDefinition, found.object))
            await in_thread("", _ready_schemas, kind)
            self._discard(name, self._prepared.pop(name, None))
            self._prepared[name] = kind

    async def _ready(self) -> None:
        """Make the large definitions ready, each unless it has changed until then."""
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
        """Forget the schemas that were made ready, unless they are served."""
        if kind is not None:
            served = self._by_name.get(name)
            kind.forget(served.custom if served is not None else None)

    def _serve(self, name: str, resource: Resource | None) -> None:
        """Serve a resource of a definition, or nothing, in the place of what was served."""
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
    """The resource of a definition: the known one where that is still right, and none as long as it is not established.

    `ready` lends its schemas, if the definition still has them.
    """
    if not holds(definition, "Established"):
        return None
    if known is not None and not _differs(known, definition):
        return known
    return custom_resource(definition, ready)


def _ready_schemas(kind: CustomKind) -> None:
    """Do what is otherwise done when a schema is first asked for."""
    for version in kind.versions:
        kind.message(version)


def _differs(resource: Resource, definition: CustomResourceDefinition) -> bool:
    known = resource.custom
    if known is None:
        return True
    old = known.definition
    names = old.status.acceptedNames != definition.status.acceptedNames
    return names or not known.describes(definition) or is_ending(old) != is_ending(definition)


def is_ending(definition: CustomResourceDefinition) -> bool:
    return definition.metadata.deletionTimestamp is not None
