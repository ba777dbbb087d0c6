"""Content negotiation: JSON, YAML or protobuf; the object itself, a Table, or its metadata only."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from dray.api.errors import NotAcceptable
from dray.apiserver.wire.bodies import JSON, PROTOBUF, YAML

_OFFERED = (JSON, YAML, "text/yaml", PROTOBUF)
_METADATA = ("PartialObjectMetadata", "PartialObjectMetadataList")
_SHAPES = {JSON: ("Table", *_METADATA), PROTOBUF: _METADATA}
_VERSIONS = {JSON: ("v1", "v1beta1"), PROTOBUF: ("v1",)}  # v1beta1 of the list has other field numbers
_ORDINARY = 512  # maximum characters of a cached header; 256 are cached
_ANY = ("*/*", "application/*", "")


class Accepted(msgspec.Struct, frozen=True):
    """The best form that the client accepts and the server can produce."""

    media: str = JSON
    shape: str = ""  # "", Table, PartialObjectMetadata, PartialObjectMetadataList


PLAIN = Accepted()


def accepted(header: str, protobuf: bool = True, *, shapes: bool = True) -> Accepted:
    """Return the form for an Accept header, cached for short headers.

    An empty header gives JSON. `protobuf` and `shapes` say whether these forms are available. Raises NotAcceptable if
    no accepted form can be produced.
    """
    return (_remembered if len(header) <= _ORDINARY else _accepted)(header, protobuf, shapes)


def _accepted(header: str, protobuf: bool, shapes: bool) -> Accepted:
    """Return the form for an Accept header. Raises NotAcceptable if no accepted form can be produced.

    JSON is preferred to protobuf at equal quality, because objects are stored as JSON. `protobuf` is False for
    objects without a protobuf form, `shapes` for reviews, which have no metadata.
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
    """Return the acceptable media types for the error message."""
    forms = [JSON, YAML]
    if shapes:
        forms += [f"{JSON};as=Table", f"{JSON};as=PartialObjectMetadata"]
    if not protobuf:
        return f"{', '.join(forms)}; there is no protobuf form of this"
    return ", ".join([*forms, PROTOBUF, *([f"{PROTOBUF};as=PartialObjectMetadata"] if shapes else ())])


_remembered = lru_cache(maxsize=256)(_accepted)


def _by_quality(header: str) -> list[tuple[float, str, dict[str, str]]]:
    """Return the clauses of an Accept header as (quality, media type, parameters), best first.

    Clauses with quality 0 or an unreadable quality are left out. Equal ones keep their order.
    """
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
    """Return the form for one clause, or None if it cannot be produced."""
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
