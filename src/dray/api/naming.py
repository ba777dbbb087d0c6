"""How objects are told apart, in words and as keys. Pure."""

from __future__ import annotations

from typing import Any


def name_of(one: Any) -> str:
    """An object as a person reads it: its namespace and its name."""
    return f"{one.metadata.namespace}/{one.metadata.name}"


def typed_key(one: Any) -> tuple[type[Any], str, str]:
    """An object among those of all types: its type, its namespace and its name."""
    return type(one), one.metadata.namespace, one.metadata.name
