"""Protocol of all API objects, and references to controlling owners."""

from __future__ import annotations

from typing import Protocol

from dray.api.types.meta import ObjectMeta, OwnerReference


class Object(Protocol):
    """Attributes that all kinds of the API have."""

    @property
    def apiVersion(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def metadata(self) -> ObjectMeta: ...


def control_by(owner: Object) -> OwnerReference:
    """Return the owner reference for objects that `owner` controls."""
    meta = owner.metadata
    return OwnerReference(owner.apiVersion, owner.kind, True, True, meta.name, meta.uid)
