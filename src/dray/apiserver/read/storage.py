"""Typed objects and their stored bytes.

The store has each object as JSON in its stored version, without resourceVersion, which only the commit assigns. All
values of a resource start with the same bytes, up to the first field of the metadata. So the resourceVersion is
inserted there, and a GET needs no decoding. Other versions are converted and encoded once per state and shared. The
registry decides on writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
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
    """How objects of one resource are encoded in one API version."""

    __slots__ = ("head", "item", "message", "resource", "stored", "version")

    def __init__(self, resource: Resource, version: str) -> None:
        self.resource = resource
        self.version = version
        self.message = resource.message(version)
        fills = resource.custom is not None and resource.custom.fills_on_read
        self.stored = version == resource.stored and resource.alias_of is None and not fills
        self.stored |= resource.converts  # `custom.conversions` has already converted objects to other versions
        self.head = f'{{"apiVersion":"{resource.api_version(version)}","kind":"{resource.kind}","metadata":{{'.encode()
        # Bytes before the metadata of a list item: custom resources include apiVersion and kind there.
        self.item = self.head if resource.custom is not None else b'{"metadata":{'


class Storage:
    """The cache as objects of resources. Implements `Reader`."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._forms: dict[tuple[str, str, str], Form] = {}
        self._shared = EncodedCache()  # encodings in other versions
        self._last_changes: dict[tuple[Resource, ...], CachedLastChange] = {}

    # Reader

    def get(self, resource: Resource, namespace: str, name: str) -> Wire | None:
        """Return an object of a resource by namespace and name, or None if it does not exist.

        The object is shared and immutable.
        """
        version = self.cache.get(resource.key(namespace, name))
        found: Wire | None = version.object if version is not None else None
        return found

    def list(self, resource: Resource, namespace: str = "") -> Iterable[Wire]:
        """Return the typed objects of one namespace, or all of them if the namespace is empty."""
        prefix = f"{resource.prefix}{namespace}/" if namespace else resource.prefix
        return (version.object for version in self.cache.list(prefix).versions)

    def last_change(self, *resources: Resource) -> CachedLastChange:
        """Return the change counter of resources: the revision of the last change of any of their objects."""
        found = self._last_changes.get(resources)
        if found is None:
            found = self._last_changes[resources] = CachedLastChange(self.cache, resources)
        return found

    # Encoding

    def form(self, resource: Resource, version: str) -> Form:
        """Return the form of a resource in a version, cached."""
        if resource.custom is not None:  # not cached, because a definition can be deleted and be large
            return Form(resource, version)
        key = (resource.group, resource.plural, version)
        form = self._forms.get(key)
        if form is None or form.resource is not resource:
            form = self._forms[key] = Form(resource, version)
        return form

    def whole(self, form: Form, version: KeyVersion, revision: int | None = None) -> bytes:
        """Return the encoded object for a single-object response.

        `revision` replaces that of the state, for a deletion. A revision of 0, as in a dry run, is omitted.
        """
        value = self._value(form, version)
        revision = revision or version.revision
        if not revision:  # dry run
            return value
        return b'%b"resourceVersion":"%d",%b' % (form.head, revision, value[len(form.head) :])

    def item(self, form: Form, version: KeyVersion) -> bytes:
        """Return the encoded object as a list item, without apiVersion and kind if the list has them."""
        value = self._value(form, version)
        return b'%b"resourceVersion":"%d",%b' % (form.item, version.revision, value[len(form.head) :])

    def parts(self, form: Form, version: KeyVersion, head: bytes) -> tuple[bytes, memoryview]:
        """Return the encoded object after a given head, as two parts.

        The second is a view of the cached bytes, so nothing is copied.
        """
        value = self._value(form, version)
        return b'%b"resourceVersion":"%d",' % (head, version.revision), memoryview(value)[len(form.head) :]

    def _value(self, form: Form, version: KeyVersion) -> bytes:
        """Return the encoding of a state in a form, from the store or converted."""
        if form.stored:
            stored = cast(bytes, version.value)
            # A custom object may have been stored in an earlier storage version.
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
        """Return a new tree of the object in the form's version, with resourceVersion unless the revision is 0."""
        tree: dict[str, Any] = msgspec.json.decode(cast(bytes, version.value))
        if version.revision:
            tree["metadata"]["resourceVersion"] = str(version.revision)
        as_stored = form.stored and tree["apiVersion"] == form.resource.api_version()
        return tree if as_stored else conversion.from_stored(form.resource, form.version, tree)


class CachedLastChange:
    """Revision of the last change of any of some resources, followed since the first request for it."""

    def __init__(self, cache: Cache, resources: Sequence[Resource]) -> None:
        self._cache = cache
        self._prefixes = [resource.prefix for resource in resources]

    @cached_property
    def revision(self) -> int:
        """Current revision. The first access subscribes to changes, which then replace the cached value."""
        revision = self._cache.revision
        for prefix in self._prefixes:
            self._cache.subscribe(prefix, revision, self._note, self._lose)
        return revision

    def _note(self, events: Sequence[StoreEvent]) -> None:
        self.revision = events[-1].revision

    def _lose(self, reason: Exception) -> None:
        """Forget the revision after a restart of the cache. The next access subscribes again."""
        self.__dict__.pop("revision", None)


def state_key(form: Form, version: KeyVersion) -> StateKey:
    """Return the cache key of one object version in a form.

    Includes a hash of the value, because a dry run may have the revision of another state.
    """
    return version.key, form.message, hash(version.value)


def as_bytes(form: Form, tree: dict[str, Any]) -> bytes:
    """Return a tree as it would be stored. The tree is consumed."""
    metadata = tree.pop("metadata")
    metadata.pop("resourceVersion", None)
    del tree["apiVersion"], tree["kind"]
    rest = encode(tree)
    return form.head + encode(metadata)[1:] + (b"," + rest[1:] if tree else b"}")


@lru_cache(maxsize=4096)
def _decoder(prefix: str) -> Callable[[bytes], Any]:
    """Return the decoder for objects below a prefix. Unknown prefixes are custom resources."""
    found = next((r for r in RESOURCES if r.prefix == prefix and r.alias_of is None), None)
    return msgspec.json.Decoder(found.type).decode if found is not None else objects.decode


def decode(key: str, value: bytes, revision: int) -> Wire:
    """Return the typed object with its resourceVersion, which the cache shares with all readers."""
    return at_revision(_decoder(key[: key.index("/") + 1])(value), revision)


def at_revision(obj: Wire, revision: int) -> Wire:
    """Set the resourceVersion of a new object in place, before others see the object. Returns the object.

    A revision of 0 gives an empty resourceVersion.
    """
    force_setattr(obj.metadata, "resourceVersion", str(revision or ""))  # type: ignore[attr-defined]  # every stored type has it
    return obj


def last_state(version: KeyVersion, revision: int) -> Wire:
    """Return the last state of a deleted object, with the resourceVersion of the deletion."""
    obj = version.object
    deleted: Wire = replace(obj, metadata=replace(obj.metadata, resourceVersion=str(revision)))
    return deleted


def written(key: str, obj: Wire, value: bytes = b"", *, expected: int | None, ttl: float | None = None) -> Op:
    """Return the write of an object. Readers later share `obj` instead of decoding the bytes. Raises TooLarge."""
    value = value or encode(obj)
    if len(value) > LARGEST_OBJECT:
        raise TooLarge(f"Request entity too large: the object has {len(value)} bytes, limit is {LARGEST_OBJECT}")
    return Op(key, value, expected, ttl, lambda key, value, revision: at_revision(obj, revision))
