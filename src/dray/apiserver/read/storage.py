"""Objects and the bytes they are stored as.

The store holds each object as JSON in its stored version, without resourceVersion, since only a commit gives it one. The
bytes of a resource all begin alike, up to the first field of the metadata, so the resourceVersion is spliced in there
and nothing is decoded to answer a GET. Other versions are converted and encoded once per state and shared. Left out:
what may be written, which is the registry's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec.structs import force_setattr, replace

from dray.api import conversion
from dray.api.custom import objects
from dray.api.errors import TooLarge
from dray.api.resources import RESOURCES, Resource
from dray.api.wire import Wire
from dray.apiserver.limits import LARGEST_OBJECT
from dray.apiserver.read.kept import EncodedCache
from dray.store import Cache, KeyVersion, Op, StoreEvent

encode = msgspec.json.Encoder().encode
StateKey = tuple[str, str, int]


class Form:
    """How the objects of one resource look in one version."""

    __slots__ = ("head", "item", "message", "resource", "stored", "version")

    def __init__(self, resource: Resource, version: str) -> None:
        self.resource = resource
        self.version = version
        self.message = resource.message(version)
        fills = resource.custom is not None and resource.custom.fills_on_read
        self.stored = version == resource.stored and resource.alias_of is None and not fills
        self.stored |= resource.converts  # what has another version was converted before (`custom.conversions`)
        self.head = f'{{"apiVersion":"{resource.api_version(version)}","kind":"{resource.kind}","metadata":{{'.encode()
        # What comes before the metadata of an element of a list: nothing, but of custom resources everything.
        self.item = self.head if resource.custom is not None else b'{"metadata":{'


class Storage:
    """The cache, seen as objects of resources. Implements the guards' `Reader`."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._forms: dict[tuple[str, str, str], Form] = {}
        self._shared = EncodedCache()  # encoded other versions
        self._last_changes: dict[tuple[Resource, ...], CachedLastChange] = {}

    # What the guards read

    def get(self, resource: Resource, namespace: str, name: str) -> Wire | None:
        version = self.cache.get(resource.key(namespace, name))
        found: Wire | None = version.object if version is not None else None
        return found

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Wire]:
        prefix = f"{resource.prefix}{namespace}/" if namespace else resource.prefix
        return (version.object for version in self.cache.list(prefix).versions)

    def last_change(self, *resources: Resource) -> CachedLastChange:
        found = self._last_changes.get(resources)
        if found is None:
            found = self._last_changes[resources] = CachedLastChange(self.cache, resources)
        return found

    # What is sent

    def form(self, resource: Resource, version: str) -> Form:
        if resource.custom is not None:  # it goes with its definition, which may be large
            return Form(resource, version)
        key = (resource.group, resource.plural, version)
        form = self._forms.get(key)
        if form is None or form.resource is not resource:
            form = self._forms[key] = Form(resource, version)
        return form

    def whole(self, form: Form, version: KeyVersion, revision: int | None = None) -> bytes:
        """The object as it is sent alone; `revision` overrides that of the state, for a deletion."""
        value = self._value(form, version)
        revision = revision or version.revision
        if not revision:  # a dry run
            return value
        return b'%b"resourceVersion":"%d",%b' % (form.head, revision, value[len(form.head) :])

    def item(self, form: Form, version: KeyVersion) -> bytes:
        """The object as it is sent in a list: without apiVersion and kind."""
        value = self._value(form, version)
        return b'%b"resourceVersion":"%d",%b' % (form.item, version.revision, value[len(form.head) :])

    def parts(self, form: Form, version: KeyVersion, head: bytes) -> tuple[bytes, memoryview]:
        """An object after a head of its own, as two parts of which the second is the cache's own: nothing is copied."""
        value = self._value(form, version)
        return b'%b"resourceVersion":"%d",' % (head, version.revision), memoryview(value)[len(form.head) :]

    def _value(self, form: Form, version: KeyVersion) -> bytes:
        if form.stored:
            stored = cast(bytes, version.value)
            # A custom object may have been stored when another version was the one to store.
            if form.resource.custom is None or stored.startswith(form.head):
                return stored
        key = state_key(form, version)
        value = self._shared.get(key)
        if value is None:
            value = self._convert(form, version)
            self._shared.put(key, value)
        return value

    def _convert(self, form: Form, version: KeyVersion) -> bytes:
        return as_bytes(form, self.tree(form, version))

    def tree(self, form: Form, version: KeyVersion) -> dict[str, Any]:
        """A private tree of the object in the form's version, with resourceVersion."""
        tree: dict[str, Any] = msgspec.json.decode(cast(bytes, version.value))
        if version.revision:
            tree["metadata"]["resourceVersion"] = str(version.revision)
        as_stored = form.stored and tree["apiVersion"] == form.resource.api_version()
        return tree if as_stored else conversion.from_stored(form.resource, form.version, tree)


class CachedLastChange:
    """The revision of the last change of any of some resources since somebody first asked about them together."""

    def __init__(self, cache: Cache, resources: Sequence[Resource]) -> None:
        self._cache = cache
        self._prefixes = [resource.prefix for resource in resources]
        self._revision = -1  # nobody has asked yet, or the cache has started again since

    @property
    def revision(self) -> int:
        if self._revision < 0:
            self._revision = self._cache.revision
            for prefix in self._prefixes:
                self._cache.subscribe(prefix, self._revision, self._note, self._lose)
        return self._revision

    def _note(self, events: Sequence[StoreEvent]) -> None:
        self._revision = events[-1].revision

    def _lose(self, reason: Exception) -> None:
        """The cache has started again: everything may have changed, and the next question subscribes again."""
        self._revision = -1


def state_key(form: Form, version: KeyVersion) -> StateKey:
    """What the bytes of a state in a form are kept by. A dry run may have the revision of another state of its key."""
    return version.key, form.message, hash(version.value)


def as_bytes(form: Form, tree: dict[str, Any]) -> bytes:
    """A tree of a form as the bytes that would be stored; the tree is used up."""
    metadata = tree.pop("metadata")
    metadata.pop("resourceVersion", None)
    del tree["apiVersion"], tree["kind"]
    rest = encode(tree)
    return form.head + encode(metadata)[1:] + (b"," + rest[1:] if tree else b"}")


@lru_cache(maxsize=4096)
def _decoder(prefix: str) -> Callable[[bytes], Any]:
    """How objects below a prefix are read; whatever the table does not have is a custom resource."""
    found = next((r for r in RESOURCES if r.prefix == prefix and r.alias_of is None), None)
    return msgspec.json.Decoder(found.type).decode if found is not None else objects.decode


def decode(key: str, value: bytes, revision: int) -> Wire:
    """What the cache shares with all readers: the typed object with its resourceVersion."""
    return at_revision(_decoder(key[: key.index("/") + 1])(value), revision)


def at_revision(obj: Wire, revision: int) -> Wire:
    """Tell an object that nobody else has seen yet its resourceVersion."""
    force_setattr(obj.metadata, "resourceVersion", str(revision or ""))  # type: ignore[attr-defined]  # every stored type has it
    return obj


def last_state(version: KeyVersion, revision: int) -> Wire:
    """A deleted object: its last state, with the resourceVersion of the deletion."""
    obj = version.object
    deleted: Wire = replace(obj, metadata=replace(obj.metadata, resourceVersion=str(revision)))
    return deleted


def written(key: str, obj: Wire, value: bytes = b"", *, expected: int | None, ttl: float | None = None) -> Op:
    """The write of a new object, which readers then share instead of decoding the bytes. Raises TooLarge."""
    value = value or encode(obj)
    if len(value) > LARGEST_OBJECT:
        raise TooLarge(f"Request entity too large: the object has {len(value)} bytes, limit is {LARGEST_OBJECT}")
    return Op(key, value, expected, ttl, lambda key, value, revision: at_revision(obj, revision))
