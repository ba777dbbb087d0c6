"""Binding: assigns a pod to a node. Can be created but is not stored."""

from __future__ import annotations

from dray.api.errors import required, unsupported
from dray.api.kind import CREATE_ONLY, Resource
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import core

KIND = Resource(core.Binding, verbs=CREATE_ONLY)


def binding_target(target: core.ObjectReference, path: Path) -> Errors:
    """Yield errors unless the target of a Binding is a named node."""
    if target.kind not in ("", "Node"):
        yield unsupported(path / "kind", target.kind, ("Node", "<empty>"))
    if not target.name:
        yield required(path / "name")
