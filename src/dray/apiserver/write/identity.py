"""What the server assigns to a new object: a generated name if requested, UID and creationTimestamp."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

from dray.api.errors import BadRequest
from dray.api.names import GENERATED_ALPHABET
from dray.api.times import timestamp
from dray.apiserver.request import Request

_SUFFIX = 5
_LONGEST_BASE = 63 - _SUFFIX
_random = random.SystemRandom()
_NOT_THE_CREATORS = frozenset({"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"})


def now(offset: float = 0) -> str:
    """Return the current time plus `offset` seconds as an API timestamp."""
    return timestamp(time.time() + offset)


def _random_digits() -> Iterator[str]:
    """Yield 32 hexadecimal digits (16 random bytes) at a time, without end.

    The bytes are read in blocks, because each system call is expensive.
    """
    while True:
        digits = os.urandom(4096).hex()
        for start in range(0, len(digits), 32):
            yield digits[start : start + 32]


_digits = _random_digits()


def new_uid() -> str:
    """Return a random UUID (version 4). Formatted directly, because Python's UUID class takes four times as long."""
    digits = next(_digits)
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def generated(base: str) -> str:
    """Return a name of `base`, shortened if it is too long, and five random characters."""
    return base[:_LONGEST_BASE] + "".join(_random.choices(GENERATED_ALPHABET, k=_SUFFIX))


def metadata_of(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a tree, adding empty metadata if missing.

    Raises BadRequest if metadata is not an object.
    """
    metadata = tree.get("metadata")
    if metadata is None:
        metadata = tree["metadata"] = {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata: expected an object")
    return metadata


def place_in_namespace(request: Request, metadata: dict[str, Any]) -> None:
    """Set the namespace to that of the request, or remove it for a cluster-scoped resource.

    Raises BadRequest if the body has another namespace.
    """
    namespace = metadata.get("namespace") or ""
    if not request.resource.namespaced:
        metadata.pop("namespace", None)
    elif namespace and namespace != request.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    else:
        metadata["namespace"] = request.namespace


def place(request: Request, metadata: dict[str, Any]) -> None:
    """Set namespace and name of the body to those of the request. Raises BadRequest if the body has others."""
    place_in_namespace(request, metadata)
    name = metadata.get("name") or ""
    if request.name:
        if name and name != request.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({request.name})")
        metadata["name"] = request.name


def begin(metadata: dict[str, Any]) -> None:
    """Set the metadata of a new object that its creator does not decide: UID, creationTimestamp, generated name."""
    for field in _NOT_THE_CREATORS.intersection(metadata):
        del metadata[field]
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now()
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated(metadata["generateName"])


def settle(request: Request, metadata: dict[str, Any], uid: str, created: str) -> None:
    """Restore metadata of a new object that admission may not change.

    These are UID, creationTimestamp and namespace, but not the name. Raises BadRequest if admission set a
    resourceVersion or another namespace.
    """
    if metadata.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    for field in _NOT_THE_CREATORS.intersection(metadata):
        del metadata[field]
    metadata["uid"], metadata["creationTimestamp"] = uid, created
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated(metadata["generateName"])
    place(request, metadata)


def keep(metadata: dict[str, Any], old: Any) -> None:
    """Restore metadata of an existing object that no update changes. Validation rejects a wrong name or UID."""
    metadata["creationTimestamp"] = old.creationTimestamp
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(field, None)
    if old.deletionTimestamp is not None:
        metadata["deletionTimestamp"] = old.deletionTimestamp
        metadata["deletionGracePeriodSeconds"] = old.deletionGracePeriodSeconds
    if not metadata.get("uid"):
        metadata["uid"] = old.uid
