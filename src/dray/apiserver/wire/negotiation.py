"""Which form of an answer a client accepts: JSON, YAML or protobuf, the object itself, a Table or only its metadata."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from dray.api.errors import NotAcceptable
from dray.apiserver.wire.bodies import JSON, PROTOBUF, YAML

_OFFERED = (JSON, YAML, "text/yaml", PROTOBUF)
_METADATA = ("PartialObjectMetadata", "PartialObjectMetadataList")
_SHAPES = {JSON: ("Table", *_METADATA), PROTOBUF: _METADATA}
_VERSIONS = {JSON: ("v1", "v1beta1"), PROTOBUF: ("v1",)}  # v1beta1 has numbers of its own for the fields of the list
_ORDINARY = 512  # characters; what is remembered of 256 headers must not be large
_ANY = ("*/*", "application/*", "")


class Accepted(msgspec.Struct, frozen=True):
    """The first form that the client accepts and we can produce."""

    media: str = JSON
    shape: str = ""  # "", Table, PartialObjectMetadata, PartialObjectMetadataList


PLAIN = Accepted()


def accepted(header: str, protobuf: bool = True, *, shapes: bool = True) -> Accepted:
    """What an Accept header comes to; those of ordinary length are remembered."""
    return (_remembered if len(header) <= _ORDINARY else _accepted)(header, protobuf, shapes)


def _accepted(header: str, protobuf: bool, shapes: bool) -> Accepted:
    """What an Accept header comes to; NotAcceptable if there is nothing that we can produce.

    JSON goes before protobuf where a client wants both equally: it is stored that way. `protobuf` is false for objects
    that have no such form, `shapes` for reviews, which have no metadata to show.
    """
    if not header:
        return PLAIN
    offers = [(quality, _offer(media, parameters)) for quality, media, parameters in _by_quality(header)]
    for quality, offer in offers:
        if offer is None or (offer.media == PROTOBUF and not protobuf) or (offer.shape and not shapes):
            continue
        same = Accepted(JSON, offer.shape)
        return same if offer.media == PROTOBUF and (quality, same) in offers else offer
    raise NotAcceptable(f"only the following media types are accepted: {_listed(protobuf, shapes)}")


def _listed(protobuf: bool, shapes: bool) -> str:
    forms = [JSON, YAML]
    if shapes:
        forms += [f"{JSON};as=Table", f"{JSON};as=PartialObjectMetadata"]
    if not protobuf:
        return f"{', '.join(forms)}; there is no protobuf form of this"
    return ", ".join([*forms, PROTOBUF, *([f"{PROTOBUF};as=PartialObjectMetadata"] if shapes else ())])


_remembered = lru_cache(maxsize=256)(_accepted)


def _by_quality(header: str) -> list[tuple[float, str, dict[str, str]]]:
    clauses = []
    for part in header.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        pairs = dict(p.partition("=")[::2] for p in parameters)
        try:
            quality = float(pairs.pop("q", 1))
        except ValueError:
            quality = 0.0
        if quality > 0:
            clauses.append((quality, media.lower(), pairs))
    return sorted(clauses, key=lambda clause: -clause[0])


def _offer(media: str, parameters: dict[str, str]) -> Accepted | None:
    if media in _ANY:
        media = JSON
    if media not in _OFFERED:
        return None
    shape = parameters.get("as", "")
    if shape and (
        shape not in _SHAPES.get(media, ())
        or parameters.get("g", "meta.k8s.io") != "meta.k8s.io"
        or parameters.get("v", "v1") not in _VERSIONS[media]
    ):
        return None
    return Accepted(media, shape)
