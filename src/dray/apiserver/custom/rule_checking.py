"""Schemas and rules of custom resources as computations that another process can make. Left out: the rules themselves (`rules`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from dray.api.custom.judgement import judged
from dray.api.custom.structure import SchemaNode, compiled
from dray.api.errors import FieldError
from dray.api.wire import Tree
from dray.apiserver.custom.rules import errors, faults
from dray.cel.errors import TooSlow
from dray.cel.limits import Interrupt, giving_up


@lru_cache(maxsize=16)
def _node(schema: bytes) -> SchemaNode:
    """A schema with its rules compiled, for one object after the other."""
    return compiled(msgspec.json.decode(schema))


class RuleChecking:
    """What is wrong with the rules of a schema."""

    def __init__(self, schema: bytes) -> None:
        self._schema = schema
        self.answer: list[FieldError] | None = None

    def run(self, interrupt: Interrupt) -> bool:
        self.answer = list(faults(_node(self._schema)))
        return True

    def found(self) -> Any:
        return self.answer

    def accept(self, found: Any) -> None:
        self.answer = found


class ObjectChecking:
    """What a schema says against an object."""

    def __init__(self, schema: bytes, tree: Tree, old: Tree | None) -> None:
        self._schema = schema
        self._tree = tree
        self._old = old
        self.answer: list[FieldError] | None = None

    def run(self, interrupt: Interrupt) -> bool:
        """Judge the object, or start over in the next turn, which is longer. Steps and costs are limited, not seconds."""
        try:
            self.answer = judged(_node(self._schema), self._tree, self._old, errors, giving_up(interrupt))
        except TooSlow:
            return False
        return True

    def found(self) -> Any:
        return self.answer

    def accept(self, found: Any) -> None:
        self.answer = found
