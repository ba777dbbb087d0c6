"""Encode answers: objects, lists, tables, metadata only, and watch events; as JSON, indented JSON, YAML or protobuf.

Stored bytes are concatenated rather than encoded again; only YAML and protobuf require decoding. Lists and large
objects are sequences of parts made one after the other (`pieces`). All watchers of a version share encoded watch
events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from dray.api.errors import ApiError
from dray.api.wire import Wire
from dray.apiserver.read.kept import EncodedCache
from dray.apiserver.read.storage import Form, Storage, encode
from dray.apiserver.read.watching import WatchedChange
from dray.apiserver.request import Answer, Request
from dray.apiserver.wire import tables
from dray.apiserver.wire.bodies import JSON, PROTOBUF
from dray.apiserver.wire.negotiation import Accepted
from dray.apiserver.wire.pieces import Part
from dray.background.turns import batched
from dray.store import KeyVersion

INITIAL_END = "k8s.io/initial-events-end"
_TOGETHER = 16  # items encoded per step
_EVENT_SECONDS = 10.0  # minimum time that an event is cached; watchers that keep up receive it within one
_SHORT = 100  # maximum items of a list that is encoded at once, if it is also short in bytes
_LARGE = 64 << 10  # bytes of an object, above which it is not copied for each reader


class ListAnswer(msgspec.Struct, frozen=True):
    """A list to be encoded: its tree without items, the field of the items, and a function that encodes items."""

    tree: dict[str, Any]
    member: str  # "items", or "rows" in a table
    versions: Sequence[KeyVersion]
    items: Callable[[Sequence[KeyVersion]], Iterable[Part]]  # encodes several items, with commas in between
    at_once: int = _SHORT  # items that may be encoded without a pause

    def parts(self) -> Iterator[Part]:
        """Yield the list as JSON, in parts of a few items."""
        yield self._head()
        for some in batched(self.versions, _TOGETHER):
            if some[0] is not self.versions[0]:
                yield b","
            yield from self.items(some)
        yield b"]}"

    def short(self, size: int) -> bytes | None:
        """Return the list as JSON, or None if it has too many items or more than about `size` bytes.

        The check is cheap.
        """
        versions = self.versions
        if len(versions) > self.at_once or self.size() > size:
            return None
        return b"".join((self._head(), *(self.items(versions) if versions else ()), b"]}"))

    def size(self) -> int:
        """Return the total size of the stored items in bytes, as an estimate of the encoded list."""
        return sum([len(version.value or b"") for version in self.versions])

    def _head(self) -> bytes:
        """Return the start of the JSON, up to the first item."""
        return b'%b,"%b":[' % (encode(self.tree)[:-1], self.member.encode())

    def trees(self) -> Iterator[Any]:
        """Yield each item decoded from JSON."""
        for version in self.versions:
            yield msgspec.json.decode(b"".join(self.items((version,))))


class AnswerWriter:
    """Encodes the answers of one server."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._events = EncodedCache(seconds=_EVENT_SECONDS)

    def answer(
        self, request: Request, answer: Answer, accepted: Accepted, include: str
    ) -> bytes | Sequence[Part] | ListAnswer:
        """Return the body of an answer in the requested form: bytes, parts if it is long, or a ListAnswer."""
        form = self._storage.form(request.resource, request.version or request.resource.stored)
        if answer.tree is not None:
            return encode(answer.tree)
        version = answer.version
        if version is None:
            return self._list(form, answer, accepted, include)
        if accepted.shape:
            return encode(self._shaped(form, version, accepted, include))
        if version.revision and len(version.value or b"") > _LARGE:
            return self._storage.parts(form, version, form.head)
        return self._storage.whole(form, version)

    def event(self, form: Form, change: WatchedChange, media: str) -> bytes:
        """Return an encoded watch event, cached for other watchers."""
        version = change.version
        if version is None:
            return _event(media, change.type, encode(_bookmark(form, change)))
        key = (version.key, change.revision, change.type, form.message, form.head, media)
        event = self._events.get(key)
        if event is None:
            event = _event(media, change.type, self._storage.whole(form, version, change.revision))
            self._events.put(key, event)
        return event

    def shaped_event(self, form: Form, change: WatchedChange, accepted: Accepted, include: str, first: bool) -> bytes:
        """Return an encoded watch event as a Table or PartialObjectMetadata. `first` includes the column definitions."""
        version, obj = change.version, change.object
        if version is None or obj is None:
            shaped: Any = _bookmark(form, change)
            if accepted.shape != "Table":
                shaped |= {"kind": "PartialObjectMetadata", "apiVersion": tables.META_V1}
            return _event(accepted.media, change.type, encode(shaped))
        if accepted.shape == "Table":
            shaped = self._table(form, obj, version, include, {"resourceVersion": str(change.revision)}, first)
        else:
            shaped = tables.partial(obj)
        return _event(accepted.media, change.type, encode(shaped))

    def _list(self, form: Form, answer: Answer, accepted: Accepted, include: str) -> ListAnswer:
        """Return a list answer as objects, Table or PartialObjectMetadataList."""
        metadata, versions = _list_metadata(answer), answer.versions or ()
        if accepted.shape == "Table":
            tree = tables.head(tables.printer(form.resource.home, form.version), metadata)
            if form.resource.custom is not None:
                return ListAnswer(tree, "rows", versions, _one_by_one(self._rows(form, include)), at_once=1)
            return ListAnswer(tree, "rows", versions, self._rows(form, include))
        if accepted.shape:
            return ListAnswer(tables.partial_list(metadata), "items", versions, _partial_items)
        tree = {
            "kind": form.resource.list_kind,
            "apiVersion": form.resource.api_version(form.version),
            "metadata": metadata,
        }
        return ListAnswer(tree, "items", versions, self._items(form))

    def _items(self, form: Form) -> Callable[[Sequence[KeyVersion]], Sequence[Part]]:
        """Return the function that encodes list items."""
        item, parts = self._storage.item, self._storage.parts

        def items(versions: Sequence[KeyVersion]) -> Sequence[Part]:
            if max([len(version.value or b"") for version in versions]) > _LARGE:
                all_parts: list[Part] = []
                for version in versions:
                    all_parts += (b",", *parts(form, version, form.item))
                return all_parts[1:]
            return (b",".join([item(form, version) for version in versions]),)

        return items

    def _rows(self, form: Form, include: str) -> Callable[[Sequence[KeyVersion]], Sequence[Part]]:
        """Return the function that encodes table rows."""
        now, prints = time.time(), tables.printer(form.resource.home, form.version)

        def row(version: KeyVersion) -> dict[str, Any]:
            full = msgspec.Raw(self._storage.whole(form, version)) if include == "Object" else None
            return tables.row(prints, cast(Wire, version.object), now, include, full)

        return lambda versions: _joined(map(row, versions))

    def _shaped(self, form: Form, version: KeyVersion, accepted: Accepted, include: str) -> Any:
        """Return one object as a Table or PartialObjectMetadata."""
        obj = cast(Wire, version.object)
        if accepted.shape == "Table":
            return self._table(form, obj, version, include, {"resourceVersion": str(version.revision)}, True)
        return tables.partial(obj)

    def _table(
        self, form: Form, obj: Wire, version: KeyVersion, include: str, metadata: dict[str, Any], header: bool
    ) -> dict[str, Any]:
        """Return a Table of one object."""
        full = msgspec.Raw(self._storage.whole(form, version)) if include == "Object" else None
        prints = tables.printer(form.resource.home, form.version)
        rows = [tables.row(prints, obj, time.time(), include, full)]
        return {**tables.head(prints, metadata, header), "rows": rows}


def _partial_items(versions: Sequence[KeyVersion]) -> Sequence[Part]:
    return _joined(tables.partial(cast(Wire, version.object)) for version in versions)


def _one_by_one(
    items: Callable[[Sequence[KeyVersion]], Sequence[Part]],
) -> Callable[[Sequence[KeyVersion]], Iterator[Part]]:
    """Return a function that encodes items one by one, with an empty part before each, where the work may pause."""

    def parts(versions: Sequence[KeyVersion]) -> Iterator[Part]:
        for version in versions:
            if version is not versions[0]:
                yield b","
            yield b""
            yield from items((version,))

    return parts


def _joined(trees: Iterable[Any]) -> Sequence[Part]:
    """Return trees as JSON with commas in between."""
    return (encode(list(trees))[1:-1],)


def _list_metadata(answer: Answer) -> dict[str, Any]:
    """Return the metadata of a list: resourceVersion and, if more objects follow, a continue token.

    The number of remaining objects is included if it is known.
    """
    metadata: dict[str, Any] = {"resourceVersion": str(answer.revision)}
    if answer.continue_token:
        metadata["continue"] = answer.continue_token
        if answer.remaining:
            metadata["remainingItemCount"] = answer.remaining
    return metadata


def _bookmark(form: Form, change: WatchedChange) -> dict[str, Any]:
    """Return the object of a BOOKMARK event."""
    metadata: dict[str, Any] = {"resourceVersion": str(change.revision), "creationTimestamp": None}
    if change.initial_end:
        metadata["annotations"] = {INITIAL_END: "true"}
    resource = form.resource
    return {"kind": resource.kind, "apiVersion": resource.api_version(form.version), "metadata": metadata}


def error_event(error: ApiError, media: str) -> bytes:
    """Return the encoded ERROR event that ends a watch."""
    return _event(media, "ERROR", encode(error.status()))


def _event(media: str, type_: str, body: bytes) -> bytes:
    """Return a watch event as a JSON line or protobuf frame; `body` is the object in JSON."""
    if media != PROTOBUF:
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)
    from dray.api import protobuf  # late: large, and only Go clients need it

    return protobuf.encode_event(type_, protobuf.encode(msgspec.json.decode(body)))


def written(body: bytes, media: str, pretty: bool) -> tuple[bytes, bytes]:
    """Return a JSON body in its final form, and the content type.

    `media` is the media type to answer with: JSON or protobuf; anything else means YAML. `pretty` indents JSON only.
    """
    if media == JSON:
        return (msgspec.json.format(body, indent=2) + b"\n" if pretty else body), b"application/json"
    tree = msgspec.json.decode(body)
    if media == PROTOBUF:
        from dray.api import protobuf

        return protobuf.encode(tree), PROTOBUF.encode()
    return yaml_text(tree), b"application/yaml"


def yaml_text(tree: Any) -> bytes:
    """Return a tree as YAML. Uses the C library if available, which is ten times as fast."""
    import yaml

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(tree, Dumper=dumper, default_flow_style=False, sort_keys=False).encode()
