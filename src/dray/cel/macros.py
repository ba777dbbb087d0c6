"""Macros: calls that the parser replaces by other expressions, usually by a comprehension.

The expansion determines estimated and actual costs, so it equals that of Kubernetes node by node.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.cel.ast import AstNode, Call, Comprehension, Ident, ListNode, Literal, MapNode, Select, children, duplicate

ACCUMULATOR = "@result"
OLD_ACCUMULATOR = "__result__"  # still forbidden as the name of an iteration variable
UNUSED = "#unused"
_MAX_COPIES = 5_000  # copied nodes per expression: nested macros that copy their target grow exponentially
_SORT_INPUT = "@__sortBy_input__"


class MacroError(Exception):
    """The arguments are invalid for the macro; `offset` is the position of the problem."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class Copies:
    """Number of nodes that macros may still copy in one expression."""

    def __init__(self) -> None:
        self.left = _MAX_COPIES


class MacroExpander:
    """Creates the nodes of a macro's expansion, all with the position of the macro call."""

    def __init__(self, offset: int, copies: Copies) -> None:
        self._offset = offset
        self._copies = copies

    def duplicate(self, node: AstNode, macro: str) -> AstNode:
        """Return a copy of an expression. Raises MacroError if the expression would exceed the limit of copied nodes."""
        pending = [node]
        while pending:
            self._copies.left -= 1
            if self._copies.left < 0:
                complaint = f"expression count exceeds limit of {_MAX_COPIES} while expanding macro '{macro}'"
                raise MacroError(complaint, self._offset)
            pending += children(pending.pop())
        return duplicate(node)

    def literal(self, value: object) -> AstNode:
        return Literal(self._offset, value)

    def ident(self, name: str) -> AstNode:
        return Ident(self._offset, name)

    def accumulator(self) -> AstNode:
        return Ident(self._offset, ACCUMULATOR)

    def call(self, function: str, *args: AstNode) -> AstNode:
        return Call(self._offset, function, None, list(args))

    def member_call(self, function: str, target: AstNode, *args: AstNode) -> AstNode:
        return Call(self._offset, function, target, list(args))

    def presence(self, operand: AstNode, field: str) -> AstNode:
        return Select(self._offset, operand, field, test=True)

    def list(self, *elements: AstNode) -> AstNode:
        return ListNode(self._offset, list(elements))

    def map(self) -> AstNode:
        return MapNode(self._offset, [])

    def fold(
        self,
        macro: str,
        over: AstNode,
        names: tuple[str, str],
        init: AstNode,
        step: AstNode,
        condition: AstNode | None = None,
        result: AstNode | None = None,
    ) -> AstNode:
        """Return a loop with the standard accumulator.

        By default, the loop never ends early and its result is the accumulator.
        """
        return Comprehension(
            self._offset,
            macro,
            over,
            *names,
            ACCUMULATOR,
            init,
            condition or self.literal(True),
            step,
            result or self.accumulator(),
        )

    def bind(self, name: str, value: AstNode, result: AstNode) -> AstNode:
        """Return an expression with a local variable: a loop over an empty list whose accumulator is the variable."""
        return Comprehension(
            self._offset, "bind", self.list(), UNUSED, "", name, value, self.literal(False), self.ident(name), result
        )


Macro = Callable[[MacroExpander, AstNode | None, list[AstNode]], AstNode | None]


def find_macro(function: str, arguments: int, method: bool) -> Macro | None:
    """Return the macro with this name and number of arguments, or None.

    `method` is whether the macro is called on a target.
    """
    return _MACROS.get((function, arguments, method))


def _variable(node: AstNode, complaint: str = "argument must be a simple name") -> str:
    if not isinstance(node, Ident):
        raise MacroError(complaint, node.offset)
    if node.name in (ACCUMULATOR, OLD_ACCUMULATOR):
        raise MacroError("iteration variable overwrites accumulator variable", node.offset)
    return node.name


def _one_variable(args: list[AstNode]) -> tuple[tuple[str, str], list[AstNode]]:
    return (_variable(args[0]), ""), args[1:]


def _two_variables(args: list[AstNode]) -> tuple[tuple[str, str], list[AstNode]]:
    for node in args[:2]:
        if not isinstance(node, Ident):
            raise MacroError("argument must be a simple name", node.offset)
    first, second = args[0], args[1]
    assert isinstance(first, Ident)
    assert isinstance(second, Ident)
    if first.name == second.name:
        raise MacroError(f"duplicate variable name: {first.name}", second.offset)
    return (_variable(first), _variable(second)), args[2:]


Split = Callable[[list[AstNode]], tuple[tuple[str, str], list[AstNode]]]


def _has(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
    if not isinstance(args[0], Select):
        raise MacroError("invalid argument to has() macro", args[0].offset)
    return make.presence(args[0].operand, args[0].field)


def _all(split: Split) -> Macro:
    def expand(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
        assert target is not None
        names, (predicate,) = split(args)
        condition = make.call("@not_strictly_false", make.accumulator())
        step = make.call("_&&_", make.accumulator(), predicate)
        return make.fold("all", target, names, make.literal(True), step, condition)

    return expand


def _exists(split: Split) -> Macro:
    def expand(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
        assert target is not None
        names, (predicate,) = split(args)
        condition = make.call("@not_strictly_false", make.call("!_", make.accumulator()))
        step = make.call("_||_", make.accumulator(), predicate)
        return make.fold("exists", target, names, make.literal(False), step, condition)

    return expand


def _exists_one(split: Split) -> Macro:
    def expand(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
        assert target is not None
        names, (predicate,) = split(args)
        count = make.call("_+_", make.accumulator(), make.literal(1))
        step = make.call("_?_:_", predicate, count, make.accumulator())
        result = make.call("_==_", make.accumulator(), make.literal(1))
        return make.fold("exists_one", target, names, make.literal(0), step, result=result)

    return expand


def _filtered(make: MacroExpander, condition: AstNode | None, step: AstNode) -> AstNode:
    return step if condition is None else make.call("_?_:_", condition, step, make.accumulator())


def _map(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
    assert target is not None
    name = _variable(args[0], "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(args[-1]))
    step = _filtered(make, args[1] if len(args) == 3 else None, step)
    return make.fold("map", target, (name, ""), make.list(), step)


def _filter(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
    assert target is not None
    name = _variable(args[0], "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(args[0]))
    return make.fold("filter", target, (name, ""), make.list(), _filtered(make, args[1], step))


def _transform_list(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
    assert target is not None
    names, rest = _two_variables(args)
    step = make.call("_+_", make.accumulator(), make.list(rest[-1]))
    step = _filtered(make, rest[0] if len(rest) == 2 else None, step)
    return make.fold("map", target, names, make.list(), step)


def _transform_map(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
    assert target is not None
    names, rest = _two_variables(args)
    step = make.call("cel.@mapInsert", make.accumulator(), make.ident(names[0]), rest[-1])
    step = _filtered(make, rest[0] if len(rest) == 2 else None, step)
    return make.fold("transformMap", target, names, make.map(), step)


def _transform_map_entry(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
    assert target is not None
    names, rest = _two_variables(args)
    step = make.call("cel.@mapInsert", make.accumulator(), rest[-1])
    step = _filtered(make, rest[0] if len(rest) == 2 else None, step)
    return make.fold("transformMapEntry", target, names, make.map(), step)


def _bind(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise MacroError("cel.bind() variable names must be simple identifiers", args[0].offset)
    return make.bind(args[0].name, args[1], args[2])


def _opt_map(name: str, wrap: bool) -> Macro:
    def expand(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
        assert target is not None
        if not isinstance(args[0], Ident):
            raise MacroError(f"{name}() variable name must be a simple identifier", args[0].offset)
        value = make.bind(args[0].name, make.member_call("value", make.duplicate(target, name)), args[1])
        present = make.call("optional.of", value) if wrap else value
        return make.call("_?_:_", make.member_call("hasValue", target), present, make.call("optional.none"))

    return expand


def _sort_by(make: MacroExpander, target: AstNode | None, args: list[AstNode]) -> AstNode:
    assert target is not None
    if isinstance(target, (Literal, MapNode)):
        complaint = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(complaint, target.offset)
    keys = _map(make, make.ident(_SORT_INPUT), args)
    return make.bind(_SORT_INPUT, target, make.member_call("@sortByAssociatedKeys", make.ident(_SORT_INPUT), keys))


_MACROS: dict[tuple[str, int, bool], Macro] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all(_one_variable),
    ("all", 3, True): _all(_two_variables),
    ("exists", 2, True): _exists(_one_variable),
    ("exists", 3, True): _exists(_two_variables),
    ("exists_one", 2, True): _exists_one(_one_variable),
    ("exists_one", 3, True): _exists_one(_two_variables),
    ("existsOne", 2, True): _exists_one(_one_variable),
    ("existsOne", 3, True): _exists_one(_two_variables),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map("optMap", wrap=True),
    ("optFlatMap", 2, True): _opt_map("optFlatMap", wrap=False),
    ("sortBy", 2, True): _sort_by,
}
