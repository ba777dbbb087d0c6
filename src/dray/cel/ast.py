"""The syntax tree. The parser builds it with macros expanded; the checker writes types and overloads into it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from dray.cel.types import Type


@dataclass(eq=False, slots=True)
class AstNode:
    """An expression. `offset` is where messages point; `height` counts what the nesting limit counts."""

    offset: int
    height: int = field(default=0, kw_only=True)
    type: Type | None = field(default=None, kw_only=True)

    @property
    def checked_type(self) -> Type:
        """The type; only after the checker has run."""
        assert self.type is not None
        return self.type


@dataclass(eq=False, slots=True)
class Literal(AstNode):
    """A constant of the source text."""

    value: object


@dataclass(eq=False, slots=True)
class Ident(AstNode):
    """A name: a variable, or a type where `constant` is set by the checker."""

    name: str
    constant: Type | None = None
    is_global: bool = False


@dataclass(eq=False, slots=True)
class Select(AstNode):
    """`operand.field`, or `has(operand.field)` where `test`; `name` is set where the whole turns out to be one name."""

    operand: AstNode
    field: str
    test: bool = False
    name: Ident | None = None


@dataclass(eq=False, slots=True)
class Call(AstNode):
    """A function or operator; a method where `target` is set."""

    function: str
    target: AstNode | None
    args: list[AstNode]
    overloads: tuple[str, ...] = ()

    @property
    def operands(self) -> list[AstNode]:
        """Target, if any, and arguments."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(eq=False, slots=True)
class ListNode(AstNode):
    """`[a, ?b]`; `optional` holds the positions with a question mark."""

    elements: list[AstNode]
    optional: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class MapEntry:
    """One `key: value` of a map; `offset` is that of the colon."""

    offset: int
    key: AstNode
    value: AstNode
    optional: bool


@dataclass(eq=False, slots=True)
class MapNode(AstNode):
    """`{key: value, ?key: value}`."""

    entries: list[MapEntry]


@dataclass(eq=False, slots=True)
class Initializer:
    """One `field: value` of a struct; `offset` is that of the colon."""

    offset: int
    field: str
    value: AstNode
    optional: bool


@dataclass(eq=False, slots=True)
class Struct(AstNode):
    """`Name{field: value, ?field: value}`."""

    name: str
    fields: list[Initializer]


@dataclass(eq=False, slots=True)
class Comprehension(AstNode):
    """A loop over `range`, the only one there is: every macro that loops becomes one. `macro` is its name."""

    macro: str
    range: AstNode
    var: str
    var2: str
    accu: str
    init: AstNode
    condition: AstNode
    step: AstNode
    result: AstNode


def duplicate(node: AstNode) -> AstNode:
    """The same expression in nodes of its own."""
    again = copy.copy(node)
    match again:
        case Select():
            again.operand = duplicate(again.operand)
        case Call():
            again.target = None if again.target is None else duplicate(again.target)
            again.args = [duplicate(argument) for argument in again.args]
        case ListNode():
            again.elements = [duplicate(element) for element in again.elements]
        case MapNode():
            again.entries = [
                MapEntry(entry.offset, duplicate(entry.key), duplicate(entry.value), entry.optional)
                for entry in again.entries
            ]
        case Struct():
            again.fields = [
                Initializer(one.offset, one.field, duplicate(one.value), one.optional) for one in again.fields
            ]
        case Comprehension():
            for part in ("range", "init", "condition", "step", "result"):
                setattr(again, part, duplicate(getattr(again, part)))
    return again


def children(node: AstNode) -> list[AstNode]:
    """The direct parts of an expression, in source order where the macros left one."""
    match node:
        case Select():
            return [node.operand if node.name is None else node.name]
        case Call():
            return node.operands
        case ListNode():
            return node.elements
        case MapNode():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case Struct():
            return [one.value for one in node.fields]
        case Comprehension():
            return [node.range, node.init, node.condition, node.step, node.result]
    return []
