"""Compiles a checked expression to the steps of the interpreter.

Everything that depends only on constants is evaluated here once: lists, maps, conversions and patterns. If this
fails, the expression does not compile.
"""

from __future__ import annotations

from dray.cel.ast import AstNode, Call, Comprehension, Ident, ListNode, Literal, MapNode, Select, Struct
from dray.cel.declarations import Environment
from dray.cel.errors import INTERNAL, CompileError, EvaluationError
from dray.cel.library.conversions import CONVERSIONS
from dray.cel.library.regex import PRECOMPILED, compile_regex
from dray.cel.limits import UNMETERED
from dray.cel.macros import ACCUMULATOR
from dray.cel.steps import (
    Append,
    Attribute,
    Conditional,
    Constant,
    Insert,
    Invocation,
    Logical,
    Loop,
    MakeList,
    MakeMap,
    MakeStruct,
    Membership,
    NotStrictlyFalse,
    OptionalAlternative,
    Qualifier,
    Step,
)
from dray.cel.values import Uint, Value, map_key

_PRIMITIVES = frozenset({bool, int, Uint, float, str})


def plan(tree: AstNode, environment: Environment) -> Step:
    """Return the steps of a checked expression. Raises CompileError.

    CompileError is raised if a step cannot be created.
    """
    try:
        return _Planner(environment).plan(tree)
    except EvaluationError as error:
        raise CompileError(f"program instantiation failed: {error}", INTERNAL) from error


class _Planner:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def plan(self, node: AstNode) -> Step:
        match node:
            case Literal():
                return Constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case Struct():
                fields = [(one.field, self.plan(one.value), one.optional) for one in node.fields]
                return MakeStruct(node.checked_type, fields)
            case Comprehension():
                return self._loop(node)
        raise AssertionError(f"not an expression: {node}")

    def _ident(self, node: Ident) -> Step:
        if node.constant is not None:
            return Constant(node.constant)
        return Attribute(node.name, node.is_global)

    def _attribute(self, node: AstNode) -> Attribute | Conditional:
        step = self.plan(node)
        return step if isinstance(step, (Attribute, Conditional)) else Attribute(step)

    def _select(self, node: Select) -> Step:
        if node.name is not None:
            return self._ident(node.name)
        attribute = self._attribute(node.operand)
        attribute.add(Qualifier(node.field, constant=True, test=node.test))
        return attribute

    def _index(self, node: Call, optional: bool) -> Step:
        attribute = self._attribute(node.args[0])
        index = self.plan(node.args[1])
        if isinstance(index, Constant):
            if index.value.__class__ not in _PRIMITIVES:
                raise EvaluationError(f"invalid qualifier type: {index.value.__class__.__name__}")
            attribute.add(Qualifier(index.value, constant=True, optional=optional))
        else:
            attribute.add(Qualifier(index, constant=False, optional=optional))
        return attribute

    def _call(self, node: Call) -> Step:
        match node.function:
            case "_[_]":
                return self._index(node, optional=False)
            case "_[?_]" | "_?._":
                return self._index(node, optional=True)
            case "_&&_" | "_||_":
                left, right = map(self.plan, node.args)
                return Logical(left, right, decisive=node.function == "_||_")
            case "_?_:_":
                condition, truthy, falsy = node.args
                return Conditional(self.plan(condition), self._attribute(truthy), self._attribute(falsy))
            case "@not_strictly_false":
                return NotStrictlyFalse(self.plan(node.args[0]))
            case "or" | "orValue":
                optional, otherwise = map(self.plan, node.operands)
                return OptionalAlternative(optional, otherwise, unwrap=node.function == "orValue")
        return self._invocation(node)

    def _invocation(self, node: Call) -> Step:
        args = tuple(map(self.plan, node.operands))
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        function = self._environment.functions[node.function]
        implementation = function.bind(node.overloads)
        constants = [arg.value for arg in args if isinstance(arg, Constant)]
        if node.function in CONVERSIONS and len(constants) == 1:
            return Constant(implementation(UNMETERED, *constants))
        if overload == "in_list" and isinstance(args[1], Constant):
            elements = args[1].value
            assert isinstance(elements, list)
            if not elements:
                return Constant(False)
            if all(element.__class__ in _PRIMITIVES for element in elements):
                return Membership(args[0], elements)
        # In these cases Kubernetes stops at the first argument that is an error.
        dispatched = function.run is None and not overload
        stops = len(args) > 2 or dispatched or node.function == "format"
        if node.function in PRECOMPILED and isinstance(args[1], Constant):
            compile_regex(str(args[1].value))
            stops = True
        price = function.price_of(overload)
        return Invocation(
            node.function, overload, args, implementation, stops, price.charge if price is not None else None
        )

    def _list(self, node: ListNode) -> Step:
        elements = [self.plan(element) for element in node.elements]
        if all(isinstance(element, Constant) for element in elements) and not node.optional:
            return Constant([element.value for element in elements if isinstance(element, Constant)])
        return MakeList(elements, node.optional)

    def _map(self, node: MapNode) -> Step:
        entries = [(self.plan(entry.key), self.plan(entry.value), entry.optional) for entry in node.entries]
        result: dict[Value, Value] = {}
        for key, value, optional in entries:
            if optional or not (isinstance(key, Constant) and isinstance(value, Constant)):
                return MakeMap(entries)
            if key.value.__class__ not in _PRIMITIVES:
                return MakeMap(entries)
            result[map_key(key.value)] = value.value
        return Constant(result)

    def _loop(self, node: Comprehension) -> Step:
        init, over = self.plan(node.init), self.plan(node.range)
        condition, step = self.plan(node.condition), self._in_place(self.plan(node.step))
        return Loop(over, node.var, node.var2, node.accu, init, condition, step, self.plan(node.result))

    def _in_place(self, step: Step) -> Step:
        """Replace a step that adds to the loop's accumulator by one that changes it in place, without a copy."""
        if (
            isinstance(step, Conditional)
            and isinstance(step.truthy, Attribute)
            and not isinstance(step.truthy.base, str)
        ):
            step.truthy.base = self._in_place(step.truthy.base)
        elif isinstance(step, Invocation) and _is_accumulator(step.args[0]):
            if step.function == "_+_" and isinstance(step.args[1], (MakeList, Constant)):
                return Append(*step.args) if not _counts(step.args[1]) else step
            if step.function == "cel.@mapInsert":
                return Insert(step.args[0], step.args[1:])
        return step


def _is_accumulator(step: Step) -> bool:
    return isinstance(step, Attribute) and step.base == ACCUMULATOR and not step.qualifiers


def _counts(step: Step) -> bool:
    """Return whether a step is the `+ 1` of a counting loop."""
    return isinstance(step, Constant) and not isinstance(step.value, list)
