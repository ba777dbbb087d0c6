"""Objects and the bytes they are stored as.

The store holds each object as JSON in its stored version, without resourceVersion, since only a commit gives it one. The
bytes of a resource all begin alike, up to the first field of the metadata, so the resourceVersion is spliced in there
and nothing is decoded to answer a GET. Other versions are converted and encoded once per state and shared. Left out:
what may be written, which is the registry's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, cast

import msgspec
from msgspec.structs import force_setattr, replace

from dray.api import conversion
from dray.api.resources import RESOURCES, Resource
from dray.api.wire import Wire
from dray.store import Cache, Event, Op, Version

encode = msgspec.json.Encoder().encode
_SHARED = 4096  # encoded forms kept for other readers of the same state; each is a few KB


class Form:
    """How the objects of one resource look in one version."""

    __slots__ = ("head", "item", "resource", "stored", "version")

    def __init__(self, resource: Resource, version: str) -> None:
        self.resource = resource
        self.version = version
        self.stored = version == resource.stored and resource.alias_of is None
        self.head = f'{{"apiVersion":"{resource.api_version(version)}","kind":"{resource.kind}","metadata":{{'.encode()
        self.item = b'{"metadata":{'


class Storage:
    """The cache, seen as objects of resources. Implements the guards' `Reader`."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._forms: dict[tuple[str, str, str], Form] = {}
        self._shared: dict[tuple[str, int, str], bytes] = {}
        self._counters: dict[str, int] = {}

    # What the guards read

    def get(self, resource: Resource, namespace: str, name: str) -> Wire | None:
        version = self.cache.get(resource.key(namespace, name))
        return cast(Wire, version.object) if version is not None else None

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Wire]:
        prefix = f"{resource.prefix}{namespace}/" if namespace else resource.prefix
        return (cast(Wire, version.object) for version in self.cache.list(prefix).versions)

    def revision(self, resource: Resource) -> int:
        """The revision of the resource's last change since somebody first asked."""
        revision = self._counters.get(resource.prefix)
        if revision is None:
            revision = self._counters[resource.prefix] = self.cache.revision
            self._count(resource.prefix)
        return revision

    def _count(self, prefix: str) -> None:
        def note(events: Sequence[Event]) -> None:
            self._counters[prefix] = events[-1].revision

        def lost(reason: Exception) -> None:
            # The cache has started anew: everything may have changed, and the next question subscribes again.
            self._counters.pop(prefix, None)

        self.cache.subscribe(prefix, self.cache.revision, note, lost)

    # What is sent

    def form(self, resource: Resource, version: str) -> Form:
        key = (resource.group, resource.plural, version)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = Form(resource, version)
        return form

    def whole(self, form: Form, version: Version, revision: int | None = None) -> bytes:
        """The object as it is sent alone; `revision` overrides that of the state, for a deletion."""
        value = self._value(form, version)
        revision = revision or version.revision
        if not revision:  # a dry run
            return value
        return b'%b"resourceVersion":"%d",%b' % (form.head, revision, value[len(form.head) :])

    def item(self, form: Form, version: Version) -> bytes:
        """The object as it is sent in a list: without apiVersion and kind."""
        value = self._value(form, version)
        return b'{"metadata":{"resourceVersion":"%d",%b' % (version.revision, value[len(form.head) :])

    def _value(self, form: Form, version: Version) -> bytes:
        if form.stored:
            return cast(bytes, version.value)
        key = (version.key, version.revision, form.version + form.resource.group)
        value = self._shared.get(key)
        if value is None:
            value = self._convert(form, version)
            if version.revision:  # a dry run has none, and must not be found again
                self._shared[key] = value
                if len(self._shared) > _SHARED:
                    del self._shared[next(iter(self._shared))]
        return value

    def _convert(self, form: Form, version: Version) -> bytes:
        tree = self.tree(form, version)
        metadata = tree.pop("metadata")
        metadata.pop("resourceVersion", None)
        del tree["apiVersion"], tree["kind"]
        rest = encode(tree)
        return form.head + encode(metadata)[1:] + (b"," + rest[1:] if tree else b"}")

    def tree(self, form: Form, version: Version) -> dict[str, Any]:
        """A private tree of the object in the form's version, with resourceVersion."""
        tree: dict[str, Any] = msgspec.json.decode(cast(bytes, version.value))
        if version.revision:
            tree["metadata"]["resourceVersion"] = str(version.revision)
        return tree if form.stored else conversion.from_stored(form.resource, form.version, tree)


@cache
def _decoder(prefix: str) -> msgspec.json.Decoder[Any]:
    found = next(r for r in RESOURCES if r.prefix == prefix and r.alias_of is None)
    return msgspec.json.Decoder(found.type)


def decode(key: str, value: bytes, revision: int) -> Wire:
    """What the cache shares with all readers: the typed object with its resourceVersion."""
    return at_revision(_decoder(key[: key.index("/") + 1]).decode(value), revision)


def at_revision(obj: Wire, revision: int) -> Wire:
    """Tell an object that nobody else has seen yet its resourceVersion."""
    force_setattr(obj.metadata, "resourceVersion", str(revision or ""))  # type: ignore[attr-defined]  # every stored type has it
    return obj


def last_state(version: Version, revision: int) -> Wire:
    """A deleted object: its last state, with the resourceVersion of the deletion."""
    obj = cast(Any, version.object)
    return cast(Wire, replace(obj, metadata=replace(obj.metadata, resourceVersion=str(revision))))


def written(key: str, obj: Wire, value: bytes = b"", *, expected: int | None, ttl: float | None = None) -> Op:
    """The write of a new object, which readers then share instead of decoding the bytes."""
    return Op(key, value or encode(obj), expected, ttl, lambda key, value, revision: at_revision(obj, revision))
