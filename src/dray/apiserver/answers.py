"""Answers as bytes: objects, lists, tables, metadata only, watch events; JSON, indented JSON, YAML or protobuf.

What the store holds is joined, not encoded again; only YAML and protobuf are made from it. Encoded watch events are
shared by all watchers of a version.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from dray.api.conversion import home
from dray.api.errors import ApiError
from dray.api.wire import Wire
from dray.apiserver import tables
from dray.apiserver.bodies import JSON, PROTOBUF
from dray.apiserver.negotiation import Accepted
from dray.apiserver.request import Answer, Request
from dray.apiserver.storage import Form, Storage, encode
from dray.apiserver.watching import Change
from dray.store import Version

INITIAL_END = "k8s.io/initial-events-end"
_SHARED = 1024  # events kept for the other watchers of the same state


class Printer:
    """Writes answers for one server."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._events: dict[tuple[str, int, str, Form, str], bytes] = {}

    def answer(self, request: Request, answer: Answer, accepted: Accepted, include: str) -> bytes:
        """The body of an answer in the form that was asked for."""
        form = self._storage.form(request.resource, request.version or request.resource.stored)
        if answer.tree is not None:
            return encode(answer.tree)
        if accepted.shape:
            return encode(self._shaped(form, answer, accepted, include))
        if answer.version is not None:
            return self._storage.whole(form, answer.version)
        return self._list(form, answer)

    def event(self, form: Form, change: Change, media: str) -> bytes:
        """One event of a watch."""
        version = change.version
        if version is None:
            return _event(media, change.type, encode(_bookmark(form, change)))
        key = (version.key, change.revision, change.type, form, media)
        event = self._events.get(key)
        if event is None:
            event = _event(media, change.type, self._storage.whole(form, version, change.revision))
            self._events[key] = event
            if len(self._events) > _SHARED:
                del self._events[next(iter(self._events))]
        return event

    def shaped_event(self, form: Form, change: Change, accepted: Accepted, include: str, first: bool) -> bytes:
        """One event of a watch that asked for tables or metadata."""
        version, obj = change.version, change.object
        if version is None or obj is None:
            shaped: Any = _bookmark(form, change)
            if accepted.shape != "Table":
                shaped |= {"kind": "PartialObjectMetadata", "apiVersion": tables.META_V1}
            return _event(accepted.media, change.type, encode(shaped))
        if accepted.shape == "Table":
            shaped = self._table(form, [obj], [version], include, {"resourceVersion": str(change.revision)}, first)
        else:
            shaped = tables.partial(obj)
        return _event(accepted.media, change.type, encode(shaped))

    def _list(self, form: Form, answer: Answer) -> bytes:
        item = self._storage.item
        head = {
            "kind": f"{form.resource.kind}List",
            "apiVersion": form.resource.api_version(form.version),
            "metadata": _list_metadata(answer),
        }
        items = b",".join([item(form, version) for version in answer.versions or ()])
        return b'%b,"items":[%b]}' % (encode(head)[:-1], items)

    def _shaped(self, form: Form, answer: Answer, accepted: Accepted, include: str) -> Any:
        single = answer.version is not None
        versions = [answer.version] if answer.version is not None else answer.versions or ()
        objects = [cast(Wire, version.object) for version in versions]
        metadata = {"resourceVersion": str(versions[0].revision)} if single else _list_metadata(answer)
        if accepted.shape == "Table":
            return self._table(form, objects, versions, include, metadata, True)
        return tables.partial(objects[0]) if single else tables.partial_list(objects, metadata)

    def _table(
        self,
        form: Form,
        objects: Sequence[Wire],
        versions: Sequence[Version],
        include: str,
        metadata: dict[str, Any],
        header: bool,
    ) -> dict[str, Any]:
        full = [msgspec.Raw(self._storage.whole(form, v)) for v in versions] if include == "Object" else ()
        return tables.table(
            home(form.resource), objects, now=time.time(), include=include, full=full, metadata=metadata, header=header
        )


def _list_metadata(answer: Answer) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(answer.revision)}
    if answer.continue_token:
        metadata["continue"] = answer.continue_token
        if answer.remaining:
            metadata["remainingItemCount"] = answer.remaining
    return metadata


def _bookmark(form: Form, change: Change) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(change.revision), "creationTimestamp": None}
    if change.initial_end:
        metadata["annotations"] = {INITIAL_END: "true"}
    resource = form.resource
    return {"kind": resource.kind, "apiVersion": resource.api_version(form.version), "metadata": metadata}


def error_event(error: ApiError, media: str) -> bytes:
    """The last event of a watch that cannot go on."""
    return _event(media, "ERROR", encode(error.status()))


def _event(media: str, type_: str, body: bytes) -> bytes:
    """What a watch sends about an object that is given in JSON: a line, or in protobuf a frame."""
    if media != PROTOBUF:
        return b'{"type":"%b","object":%b}\n' % (type_.encode(), body)
    from dray.api import protobuf  # large, and only Go clients need it

    return protobuf.encode_event(type_, protobuf.encode(msgspec.json.decode(body)))


def written(body: bytes, media: str, pretty: bool) -> tuple[bytes, bytes]:
    """The body in its final form, and its content type."""
    if media == JSON:
        return (msgspec.json.format(body, indent=2) + b"\n" if pretty else body), b"application/json"
    tree = msgspec.json.decode(body)
    if media == PROTOBUF:
        from dray.api import protobuf

        return protobuf.encode(tree), PROTOBUF.encode()
    import yaml

    return yaml.safe_dump(tree, default_flow_style=False, sort_keys=False).encode(), b"application/yaml"
