"""Schemas and rules of custom resources as computations that another process can make. Left out: the rules themselves (`rules`)."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import msgspec

from dray.api.custom.judgement import judged
from dray.api.custom.structure import SchemaNode, compiled
from dray.api.errors import FieldError
from dray.api.wire import Tree
from dray.apiserver.custom.rules import errors, faults
from dray.cel.errors import Interrupted
from dray.cel.limits import Interrupt

SECONDS = 10.0  # of the processor for the rules about one object: about what their budget of cost comes to


def _at(ends: float) -> Interrupt:
    def interrupt() -> bool:
        if time.thread_time() > ends:
            raise Interrupted
        return False

    return interrupt


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
        ends = time.thread_time() + SECONDS
        interrupt = _at(ends)
        try:
            self.answer = judged(_node(self._schema), self._tree, self._old, errors, interrupt)
        except Interrupted:
            text = f"validation takes more than {SECONDS:g} s: its schema has too many alternatives for it"
            self.answer = [FieldError("FieldValueForbidden", "<nil>", f"Forbidden: {text}")]
        return True

    def found(self) -> Any:
        return self.answer

    def accept(self, found: Any) -> None:
        self.answer = found
