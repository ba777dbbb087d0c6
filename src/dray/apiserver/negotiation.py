"""Which form of an answer a client accepts: JSON or YAML, the object itself, a Table or only its metadata."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from dray.api.errors import NotAcceptable

_OFFERED = ("application/json", "application/yaml", "text/yaml")
_SHAPES = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_ANY = ("*/*", "application/*", "")


class Accepted(msgspec.Struct, frozen=True):
    """The first form that the client accepts and we can produce."""

    media: str = "application/json"
    shape: str = ""  # "", Table, PartialObjectMetadata, PartialObjectMetadataList

    @property
    def yaml(self) -> bool:
        return self.media != "application/json"


PLAIN = Accepted()


@lru_cache(maxsize=256)
def accepted(header: str) -> Accepted:
    """What an Accept header comes to; NotAcceptable if there is nothing that we can produce."""
    if not header:
        return PLAIN
    for clause in _by_quality(header):
        media, parameters = clause
        found = _offer(media, parameters)
        if found is not None:
            return found
    raise NotAcceptable(
        "only the following media types are accepted: application/json, application/yaml,"
        " application/json;as=Table, application/json;as=PartialObjectMetadata"
    )


def _by_quality(header: str) -> list[tuple[str, dict[str, str]]]:
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
    clauses.sort(key=lambda clause: -clause[0])
    return [(media, pairs) for _, media, pairs in clauses]


def _offer(media: str, parameters: dict[str, str]) -> Accepted | None:
    if media in _ANY:
        media = "application/json"
    if media not in _OFFERED:
        return None
    shape = parameters.get("as", "")
    if shape and (
        shape not in _SHAPES or parameters.get("g", "meta.k8s.io") != "meta.k8s.io" or media != "application/json"
    ):
        return None
    if shape and parameters.get("v", "v1") not in ("v1", "v1beta1"):
        return None
    return Accepted(media, shape)
