"""What all kinds of objects have in common, and how an object names the one that controls it."""

from __future__ import annotations

from typing import Protocol

from dray.api.types.meta import ObjectMeta, OwnerReference


class Object(Protocol):
    """What all kinds of the API have in common."""

    @property
    def apiVersion(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def metadata(self) -> ObjectMeta: ...


def control_by(owner: Object) -> OwnerReference:
    """The owner reference of what `owner` controls."""
    meta = owner.metadata
    return OwnerReference(owner.apiVersion, owner.kind, True, True, meta.name, meta.uid)
