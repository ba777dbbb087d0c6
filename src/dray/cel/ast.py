"""The syntax tree. The parser builds it with macros expanded; the checker writes types and overloads into it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from dray.cel.types import Type


@dataclass(eq=False, slots=True)
class Node:
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
class Literal(Node):
    """A constant of the source text."""

    value: object


@dataclass(eq=False, slots=True)
class Ident(Node):
    """A name: a variable, or a type where `constant` is set by the checker."""

    name: str
    constant: Type | None = None
    is_global: bool = False


@dataclass(eq=False, slots=True)
class Select(Node):
    """`operand.field`, or `has(operand.field)` where `test`; `name` is set where the whole turns out to be one name."""

    operand: Node
    field: str
    test: bool = False
    name: Ident | None = None


@dataclass(eq=False, slots=True)
class Call(Node):
    """A function or operator; a method where `target` is set."""

    function: str
    target: Node | None
    args: list[Node]
    overloads: tuple[str, ...] = ()

    @property
    def operands(self) -> list[Node]:
        """Target, if any, and arguments."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(eq=False, slots=True)
class ListNode(Node):
    """`[a, ?b]`; `optional` holds the positions with a question mark."""

    elements: list[Node]
    optional: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class Entry:
    """One `key: value` of a map; `offset` is that of the colon."""

    offset: int
    key: Node
    value: Node
    optional: bool


@dataclass(eq=False, slots=True)
class MapNode(Node):
    """`{key: value, ?key: value}`."""

    entries: list[Entry]


@dataclass(eq=False, slots=True)
class Initializer:
    """One `field: value` of a struct; `offset` is that of the colon."""

    offset: int
    field: str
    value: Node
    optional: bool


@dataclass(eq=False, slots=True)
class Struct(Node):
    """`Name{field: value, ?field: value}`."""

    name: str
    fields: list[Initializer]


@dataclass(eq=False, slots=True)
class Comprehension(Node):
    """A loop over `range`, the only one there is: every macro that loops becomes one. `macro` is its name."""

    macro: str
    range: Node
    var: str
    var2: str
    accu: str
    init: Node
    condition: Node
    step: Node
    result: Node


def duplicate(node: Node) -> Node:
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
                Entry(entry.offset, duplicate(entry.key), duplicate(entry.value), entry.optional)
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


def children(node: Node) -> list[Node]:
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
