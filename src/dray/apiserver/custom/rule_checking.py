"""Checks of custom schemas and their CEL rules that run in the worker process. `rules` evaluates the rules."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from dray.api.custom.judgement import judged
from dray.api.custom.structure import SchemaNode, compiled
from dray.api.errors import FieldError
from dray.api.wire import Tree
from dray.apiserver.custom.rules import errors, faults
from dray.cel.limits import Interrupt, giving_up

__all__ = ["faults", "faults_of", "object_errors"]


@lru_cache(maxsize=16)
def _node(schema: bytes) -> SchemaNode:
    """Return a compiled schema, cached for the next object."""
    return compiled(msgspec.json.decode(schema))


def faults_of(schema: bytes, interrupt: Interrupt) -> list[FieldError]:
    """Return the errors in the rules of a schema."""
    return list(faults(_node(schema), giving_up(interrupt)))


def object_errors(schema: bytes, tree: Tree, old: Tree | None, interrupt: Interrupt) -> list[FieldError]:
    """Return the errors of an object by its schema and rules. Limited in steps and cost, not in time."""
    return list(judged(_node(schema), tree, old, errors, giving_up(interrupt)))
