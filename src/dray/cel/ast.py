"""Nodes of the syntax tree. The parser builds the tree with macros expanded; the checker adds types and overloads."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from dray.cel.types import Type


@dataclass(eq=False, slots=True)
class AstNode:
    """Base class of all nodes. `offset` is the position for errors; `height` is the limited nesting depth."""

    offset: int
    height: int = field(default=0, kw_only=True)
    type: Type | None = field(default=None, kw_only=True)

    @property
    def checked_type(self) -> Type:
        """The type that the checker assigned; must not be read before the checker has run."""
        assert self.type is not None
        return self.type


@dataclass(eq=False, slots=True)
class Literal(AstNode):
    """A constant in the source text."""

    value: object


@dataclass(eq=False, slots=True)
class Ident(AstNode):
    """A name of a variable, or of a type: then the checker sets `constant` to that type."""

    name: str
    constant: Type | None = None
    is_global: bool = False


@dataclass(eq=False, slots=True)
class Select(AstNode):
    """Field selection `operand.field`, or `has(operand.field)` if `test` is set.

    The checker sets `name` if the dotted path as a whole is the name of one variable.
    """

    operand: AstNode
    field: str
    test: bool = False
    name: Ident | None = None


@dataclass(eq=False, slots=True)
class Call(AstNode):
    """Call of a function or operator; a method call if `target` is set."""

    function: str
    target: AstNode | None
    args: list[AstNode]
    overloads: tuple[str, ...] = ()

    @property
    def operands(self) -> list[AstNode]:
        """The target, if there is one, followed by the arguments."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(eq=False, slots=True)
class ListNode(AstNode):
    """List literal `[a, ?b]`; `optional` holds the indices of the elements with a question mark."""

    elements: list[AstNode]
    optional: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class MapEntry:
    """One `key: value` of a map literal; `offset` is the position of the colon."""

    offset: int
    key: AstNode
    value: AstNode
    optional: bool


@dataclass(eq=False, slots=True)
class MapNode(AstNode):
    """Map literal `{key: value, ?key: value}`."""

    entries: list[MapEntry]


@dataclass(eq=False, slots=True)
class Initializer:
    """One `field: value` of a struct literal; `offset` is the position of the colon."""

    offset: int
    field: str
    value: AstNode
    optional: bool


@dataclass(eq=False, slots=True)
class Struct(AstNode):
    """Struct literal `Name{field: value, ?field: value}`."""

    name: str
    fields: list[Initializer]


@dataclass(eq=False, slots=True)
class Comprehension(AstNode):
    """A loop over `range`. Every looping macro is expanded to this node; `macro` is the name of the macro."""

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
    """Return a deep copy of an expression."""
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
    """Return the direct subexpressions of a node, in source order except where macro expansion changed the order.

    Literals and names have none.
    """
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
