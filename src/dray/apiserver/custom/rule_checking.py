"""Schemas and rules of custom resources as computations of the worker process. Left out: the rules themselves (`rules`)."""

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
    """A schema with its rules compiled, for one object after the other."""
    return compiled(msgspec.json.decode(schema))


def faults_of(schema: bytes, interrupt: Interrupt) -> list[FieldError]:
    """What is wrong with the rules of a schema."""
    return list(faults(_node(schema), giving_up(interrupt)))


def object_errors(schema: bytes, tree: Tree, old: Tree | None, interrupt: Interrupt) -> list[FieldError]:
    """What a schema says against an object. Steps and costs are limited, not seconds."""
    return list(judged(_node(schema), tree, old, errors, giving_up(interrupt)))
