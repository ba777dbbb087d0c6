"""What the server gives a new object: a name if it asked for one, a uid, a time of creation."""

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
    """The time as the API writes it."""
    return timestamp(time.time() + offset)


def _random_digits() -> Iterator[str]:
    """Sixteen random bytes at a time, in hexadecimal. Asking the system for each costs more than all the rest."""
    while True:
        digits = os.urandom(4096).hex()
        for start in range(0, len(digits), 32):
            yield digits[start : start + 32]


_digits = _random_digits()


def new_uid() -> str:
    """A random UUID (version 4), written directly: the class that Python has for them costs four times as much."""
    digits = next(_digits)
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def generated(base: str) -> str:
    """A name that begins with `base` and is almost certainly new."""
    return base[:_LONGEST_BASE] + "".join(_random.choices(GENERATED_ALPHABET, k=_SUFFIX))


def metadata_of(tree: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a tree, made if it is missing."""
    metadata = tree.get("metadata")
    if metadata is None:
        metadata = tree["metadata"] = {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata: expected an object")
    return metadata


def place_in_namespace(request: Request, metadata: dict[str, Any]) -> None:
    """Set the namespace to that of the request, or remove it from an object that has none."""
    namespace = metadata.get("namespace") or ""
    if not request.resource.namespaced:
        metadata.pop("namespace", None)
    elif namespace and namespace != request.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    else:
        metadata["namespace"] = request.namespace


def place(request: Request, metadata: dict[str, Any]) -> None:
    """Set namespace and name of the body to those of the request. Raises BadRequest if the body names others."""
    place_in_namespace(request, metadata)
    name = metadata.get("name") or ""
    if request.name:
        if name and name != request.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({request.name})")
        metadata["name"] = request.name


def begin(metadata: dict[str, Any]) -> None:
    """Everything about a new object that its creator does not decide."""
    for field in _NOT_THE_CREATORS.intersection(metadata):
        del metadata[field]
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now()
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated(metadata["generateName"])


def settle(request: Request, metadata: dict[str, Any], uid: str, created: str) -> None:
    """Restore what admission may not change about a new object. Its name may change, its namespace may not."""
    if metadata.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    for field in _NOT_THE_CREATORS.intersection(metadata):
        del metadata[field]
    metadata["uid"], metadata["creationTimestamp"] = uid, created
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated(metadata["generateName"])
    place(request, metadata)


def keep(metadata: dict[str, Any], old: Any) -> None:
    """Restore what no update changes about an existing object. A wrong name or uid is left for validation to refuse."""
    metadata["creationTimestamp"] = old.creationTimestamp
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(field, None)
    if old.deletionTimestamp is not None:
        metadata["deletionTimestamp"] = old.deletionTimestamp
        metadata["deletionGracePeriodSeconds"] = old.deletionGracePeriodSeconds
    if not metadata.get("uid"):
        metadata["uid"] = old.uid
