"""Names of objects, as text and as keys. All functions are pure."""

from __future__ import annotations

from typing import Any


def name_of(one: Any) -> str:
    """Return the name of an object for users: `namespace/name`; `/name` for cluster-scoped objects."""
    return f"{one.metadata.namespace}/{one.metadata.name}"


def typed_key(one: Any) -> tuple[type[Any], str, str]:
    """Return the key of an object among objects of all types: type, namespace ("" if cluster-scoped) and name."""
    return type(one), one.metadata.namespace, one.metadata.name
