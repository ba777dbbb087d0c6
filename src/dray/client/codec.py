"""Decodes responses to typed objects and encodes trees, also for servers of older or newer versions.

A response that fits its struct is decoded in one step. Otherwise (fields of a newer release, nulls, or an older
version of the group) it is decoded to a tree, cleaned along the schema, converted, and then typed. `versions`
determines the version of the server.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from dray.api.errors import ApiError, BadRequest, InternalError
from dray.api.resources import Resource
from dray.api.types import meta
from dray.api.wire import Tree, Wire
from dray.client.errors import from_status
from dray.client.interface import EventBatch, Page, WatchEvent

W = TypeVar("W")

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadRequest)


class _Line(msgspec.Struct, Generic[W]):
    """One line of a watch."""

    type: str
    object: W


class _List(msgspec.Struct, Generic[W]):
    items: tuple[W, ...] = ()
    metadata: meta.ListMeta = msgspec.field(default_factory=meta.ListMeta)


class Codec:
    """Encoder and decoder for one resource in one version that the server serves."""

    def __init__(self, resource: Resource, version: str) -> None:
        # Only a webhook can convert objects of this resource, so use the server's version.
        if resource.custom is not None and resource.converts:
            resource = resource.custom.seen_in(resource, version)
        self.resource = resource
        self.version = version
        self._direct = version == resource.stored
        self._object, self._list, self._line = _decoders(resource.type)

    def object(self, body: bytes) -> Any:
        """Decode one object: of this resource, or of the kind that a subresource returns.

        Raises InternalError if it cannot be read.
        """
        if self._direct:
            try:
                found = self._object.decode(body)
                if found.kind == self.resource.kind:  # a Scale may decode as a Deployment
                    return found
            except msgspec.DecodeError:
                pass
        return self.typed(_tree(body))

    def page(self, body: bytes) -> Page[Any]:
        """Decode a list. Raises InternalError if it cannot be read."""
        if self._direct:
            try:
                return _page(self._list.decode(body))
            except msgspec.DecodeError:
                pass
        tree = _tree(body)
        try:
            given = {key: value for key, value in tree.items() if value is not None}
            found = msgspec.convert(given, _List[Tree])
            return _page(_List(tuple(self.typed(item) for item in found.items), found.metadata))
        except msgspec.ValidationError as error:
            raise InternalError(f"the server's list of {self.resource.plural} cannot be read: {error}") from error

    def events(self, lines: list[bytes]) -> tuple[EventBatch[Any], ApiError | None]:
        """Decode lines of a watch. Returns the events up to the first error, and the error, or None without one.

        A line with an error of the server, and one that cannot be read, is an error.
        """
        events: EventBatch[Any] = []
        for line in lines:
            try:
                events.append(self._event(line))
            except ApiError as error:
                return events, error
        return events, None

    def encode(self, tree: Tree) -> bytes:
        """Return the body of a create or update request in the server's version."""
        tree = {"apiVersion": self.resource.api_version(), "kind": self.resource.kind, **tree}
        if not self._direct and tree["kind"] == self.resource.kind:
            from dray.api import conversion

            tree = conversion.from_stored(self.resource, self.version, tree)
        return msgspec.json.encode(tree)

    def encode_patch(self, patch: Tree | list[Tree]) -> bytes:
        """Return the body of a patch. Raises BadRequest for a patch of `spec` if the server has another version.

        Versions differ only in `spec`, and a part of a spec cannot be converted.
        """
        if not self._direct and (not isinstance(patch, dict) or "spec" in patch):
            raise BadRequest(
                f"this server has {self.resource.plural} only in version {self.version}, "
                "where a patch of the spec cannot be translated; update the whole object instead"
            )
        if isinstance(patch, dict) and "apiVersion" in patch:
            patch = {**patch, "apiVersion": self.resource.api_version(self.version)}
        return msgspec.json.encode(patch)

    def typed(self, tree: Tree) -> Any:
        """Convert a tree in the server's version to a typed object. Raises InternalError if it cannot be read."""
        from dray.api import conversion, decode

        kind = tree.get("kind") or self.resource.kind
        try:
            if kind != self.resource.kind:
                return msgspec.convert(tree, _answers()[kind])
            if not self._direct:
                decode.check(self.resource, self.version, tree)
                tree = conversion.to_stored(self.resource, self.version, tree)
            return decode.to_object(self.resource, tree)
        except (msgspec.ValidationError, KeyError, *_UNREADABLE) as error:
            raise InternalError(f"the server's {self.resource.kind} cannot be read: {error}") from error

    def _event(self, line: bytes) -> WatchEvent[Any]:
        if self._direct:
            try:
                event = self._line.decode(line)
                return WatchEvent(event.type, event.object, event.object.metadata.resourceVersion)
            except msgspec.DecodeError:
                pass
        tree = _tree(line)
        obj = tree.get("object")
        if not isinstance(obj, dict):
            raise InternalError(f"the server's watch of {self.resource.plural} has an event without an object")
        if tree.get("type") == "ERROR":
            raise from_status(obj)
        typed = self.typed(obj)
        return WatchEvent(str(tree.get("type")), typed, typed.metadata.resourceVersion)


@cache
def _answers() -> dict[str, type[Wire]]:
    """Return the types of kinds that subresources return instead of the object itself."""
    from dray.api.types import authentication, autoscaling, policy

    return {
        "Status": meta.Status,
        "TokenRequest": authentication.TokenRequest,
        "Scale": autoscaling.Scale,
        "Eviction": policy.Eviction,
    }


@cache
def _decoders(type_: type[Wire]) -> tuple[Any, Any, Any]:
    return (
        msgspec.json.Decoder(type_),
        msgspec.json.Decoder(cast(Any, _List)[type_]),
        msgspec.json.Decoder(cast(Any, _Line)[type_]),
    )


def _tree(body: bytes) -> Tree:
    try:
        tree = msgspec.json.decode(body)
    except _UNREADABLE as error:
        raise InternalError(f"the server's answer is not JSON: {error}") from error
    if not isinstance(tree, dict):
        raise InternalError("the server's answer is not a JSON object")
    return tree


def _page(found: _List[Any]) -> Page[Any]:
    data = found.metadata
    return Page(found.items, data.resourceVersion, data.continue_, data.remainingItemCount)
