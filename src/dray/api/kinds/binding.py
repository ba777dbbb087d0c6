"""Binding: assigns a pod to a node. Can be created but is not stored."""

from __future__ import annotations

from dray.api.kind import CREATE_ONLY, Resource
from dray.api.types import core

KIND = Resource(core.Binding, verbs=CREATE_ONLY)
