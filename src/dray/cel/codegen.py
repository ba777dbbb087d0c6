"""Generates a Python function from a checked expression, using Python's `ast` module.

Where the static types allow, the function uses plain Python operators; otherwise it calls `runtime` or the
function library. A value that it returns is always correct. At run time it raises an exception in unusual cases,
and the caller then uses the interpreter. Expressions that cannot be generated at all are always interpreted.
"""

from __future__ import annotations

import ast as py
import math
from collections.abc import Callable
from functools import partial
from itertools import count

from dray.cel import runtime
from dray.cel.ast import AstNode, Call, Comprehension, Ident, ListNode, Literal, MapNode, Select
from dray.cel.declarations import Environment
from dray.cel.device import DeviceView
from dray.cel.errors import EvaluationError
from dray.cel.library import operators, strings
from dray.cel.library.regex import compile_regex
from dray.cel.limits import UNMETERED, Interrupt
from dray.cel.types import Kind
from dray.cel.values import Uint, Value

CompiledFunction = Callable[[DeviceView, Interrupt | None], Value]

_DEVICE_FIELDS = {
    "driver": "driver",
    "attributes": "attributes",
    "capacity": "capacity",
    "allowMultipleAllocations": "allow_multiple_allocations",
}
_NUMBERS = frozenset({Kind.INT, Kind.UINT, Kind.DOUBLE})
_COMPARED_PLAINLY = frozenset({Kind.STRING, Kind.BYTES, Kind.BOOL})
_ORDERS: dict[str, tuple[type[py.cmpop], Callable[..., Value]]] = {
    "_<_": (py.Lt, operators.less),
    "_<=_": (py.LtE, operators.less_equal),
    "_>_": (py.Gt, operators.greater),
    "_>=_": (py.GtE, operators.greater_equal),
}
_INT_ARITHMETIC: dict[str, type[py.operator]] = {"_+_": py.Add, "_-_": py.Sub, "_*_": py.Mult}
_QUANTITY_ORDERS: dict[str, type[py.cmpop]] = {
    "quantity_is_greater_than": py.Gt,
    "quantity_is_less_than": py.Lt,
}


class _Unsupported(Exception):
    """A part of the expression can only be interpreted."""


def generate(tree: AstNode, environment: Environment) -> CompiledFunction | None:
    """Generate the function of an expression. Returns None if the expression must be interpreted.

    This is so if the tree has a node that cannot be generated or is nested too deeply.
    """
    generator = _Generator(environment)
    try:
        return generator.function(tree)
    except (_Unsupported, RecursionError, MemoryError):
        return None


class _Generator:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._namespace: dict[str, object] = {}
        self._fresh = count()
        self._locals: dict[str, list[str]] = {}

    def function(self, tree: AstNode) -> CompiledFunction:
        arguments = py.arguments([], [py.arg("device"), py.arg("interrupt")], None, [], [], None, [])
        lambda_ = py.Lambda(arguments, self._emit(tree))
        expression = py.fix_missing_locations(py.Expression(lambda_))
        result: CompiledFunction = eval(compile(expression, "<selector>", "eval"), self._namespace)
        return result

    # Pieces of Python

    def _global(self, value: object) -> py.expr:
        """Store a value under a new global name of the generated code. Returns the expression that reads this name."""
        name = f"_{len(self._namespace)}"
        self._namespace[name] = value
        return py.Name(name, py.Load())

    def _constant(self, value: Value) -> py.expr:
        match value:
            case None | str() | bytes():
                return py.Constant(value)
            case int() if value.__class__ is not Uint:
                return py.Constant(value)
            case float() if math.isfinite(value):
                return py.Constant(value)
        return self._global(value)

    def _call_python(self, function: Callable[..., object], *args: py.expr) -> py.expr:
        return py.Call(self._global(function), list(args), [])

    def _compare(self, left: py.expr, operator: py.cmpop, right: py.expr) -> py.expr:
        return py.Compare(left, [operator], [right])

    # Expressions

    def _emit(self, node: AstNode) -> py.expr:
        match node:
            case Literal():
                return self._constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode() if not node.optional:
                return py.List([self._emit(element) for element in node.elements], py.Load())
            case MapNode():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
        raise _Unsupported

    def _bool(self, node: AstNode) -> py.expr:
        """Generate an operand of a logical operator, with a check at run time if the static type is not bool."""
        emitted = self._emit(node)
        if node.checked_type.kind is Kind.BOOL:
            return emitted
        return self._call_python(runtime.boolean, emitted)

    def _ident(self, node: Ident) -> py.expr:
        if node.constant is not None:
            return self._global(node.constant)
        if node.is_global:
            return py.Attribute(py.Name("device", py.Load()), "variable", py.Load())
        return py.Name(self._locals[node.name][-1], py.Load())

    def _select(self, node: Select) -> py.expr:
        if node.name is not None:
            return self._ident(node.name)
        operand = node.operand
        if isinstance(operand, Ident) and operand.is_global:
            if node.test:
                return py.Constant(True)
            return py.Attribute(py.Name("device", py.Load()), _DEVICE_FIELDS[node.field], py.Load())
        key = py.Constant(node.field)
        emitted = self._emit(operand)
        if node.test:
            if _is_inner_map(operand):
                return self._compare(key, py.In(), emitted)
            return self._call_python(runtime.has, emitted, key)
        return self._down(operand, emitted, key, textual=True)

    def _down(self, operand: AstNode, emitted: py.expr, key: py.expr, textual: bool) -> py.expr:
        """Generate access to a field, key or index of `operand`; `textual` says that the key is known to be a string."""
        if operand.checked_type.is_optional:
            return self._call_python(runtime.probe, emitted, key)
        if operand.checked_type.kind is Kind.MAP and textual:
            return py.Subscript(emitted, key, py.Load())
        return self._call_python(runtime.field, emitted, key)

    def _map(self, node: MapNode) -> py.expr:
        if any(entry.optional or entry.key.checked_type.kind is not Kind.STRING for entry in node.entries):
            raise _Unsupported
        keys: list[py.expr | None] = [self._emit(entry.key) for entry in node.entries]
        return py.Dict(keys, [self._emit(entry.value) for entry in node.entries])

    # Calls

    def _call(self, node: Call) -> py.expr:
        emit = _OPERATORS.get(node.function)
        emitted = emit(self, node) if emit else None
        return emitted if emitted is not None else self._library(node)

    def _library(self, node: Call) -> py.expr:
        """Generate a call of a library function, or its result if all arguments are literals."""
        overload = node.overloads[0] if len(node.overloads) == 1 else ""
        if overload in _QUANTITY_ORDERS and _kinds(node) == {Kind.STRUCT}:
            left, right = map(self._emit, node.operands)
            return self._compare(left, _QUANTITY_ORDERS[overload](), right)
        function = self._environment.functions[node.function]
        bound = partial(function.bind(node.overloads), UNMETERED)
        if overload and all(operand.checked_type.certain for operand in node.operands):
            implementation = function.unchecked(overload) or bound
        else:
            implementation = function.generated or bound
        constants = [operand.value for operand in node.operands if isinstance(operand, Literal)]
        if len(constants) == len(node.operands):
            try:
                return self._constant(bound(*constants))
            except EvaluationError:
                return self._call_python(runtime.fail)
        return self._call_python(implementation, *map(self._emit, node.operands))

    def _logical(self, node: Call) -> py.expr:
        operator = py.And() if node.function == "_&&_" else py.Or()
        return py.BoolOp(operator, [self._bool(argument) for argument in node.args])

    def _not(self, node: Call) -> py.expr | None:
        if node.args[0].checked_type.kind is not Kind.BOOL:
            return None
        return py.UnaryOp(py.Not(), self._emit(node.args[0]))

    def _conditional(self, node: Call) -> py.expr:
        condition, truthy, falsy = node.args
        return py.IfExp(self._bool(condition), self._emit(truthy), self._emit(falsy))

    def _equality(self, node: Call) -> py.expr | None:
        kinds = _kinds(node)
        if kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= _COMPARED_PLAINLY):
            operator = py.Eq() if node.function == "_==_" else py.NotEq()
            left, right = map(self._emit, node.args)
            return self._compare(left, operator, right)
        return None

    def _order(self, node: Call) -> py.expr:
        operator, general = _ORDERS[node.function]
        kinds = _kinds(node)
        left, right = map(self._emit, node.args)
        if kinds <= _NUMBERS or (len(kinds) == 1 and kinds <= _COMPARED_PLAINLY):
            return self._compare(left, operator(), right)
        return self._call_python(general, left, right)

    def _arithmetic(self, node: Call) -> py.expr | None:
        kinds = _kinds(node)
        if Kind.LIST in kinds and len(kinds) > 1:
            raise _Unsupported  # the checker gives list + dyn the type of the list, but the value may have another type
        if kinds != {Kind.INT}:
            return None
        left, right = map(self._emit, node.args)
        return self._call_python(operators.checked_int, py.BinOp(left, _INT_ARITHMETIC[node.function](), right))

    def _negate(self, node: Call) -> py.expr:
        return self._call_python(operators.negate, self._emit(node.args[0]))

    def _index(self, node: Call) -> py.expr:
        operand, key = node.args
        return self._down(operand, self._emit(operand), self._emit(key), key.checked_type.kind is Kind.STRING)

    def _optional_index(self, node: Call) -> py.expr:
        return self._call_python(runtime.probe, *map(self._emit, node.args))

    def _in(self, node: Call) -> py.expr | None:
        element, container = node.args
        if isinstance(container, ListNode) and container.elements and not container.optional:
            values = [item.value if isinstance(item, Literal) else None for item in container.elements]
            if all(value.__class__ is str for value in values):
                return self._compare(self._emit(element), py.In(), self._global(frozenset(values)))
        if container.checked_type.kind is Kind.MAP and element.checked_type.kind is Kind.STRING:
            return self._compare(self._emit(element), py.In(), self._emit(container))
        return None

    def _size(self, node: Call) -> py.expr | None:
        operand = node.operands[0]
        if operand.checked_type.kind not in (Kind.STRING, Kind.BYTES, Kind.LIST, Kind.MAP):
            return None
        return self._call_python(len, self._emit(operand))

    def _text_test(self, node: Call) -> py.expr | None:
        if _kinds(node) != {Kind.STRING}:
            general = {
                "contains": strings.contains,
                "startsWith": strings.starts_with,
                "endsWith": strings.ends_with,
            }[node.function]
            return self._call_python(general, *map(self._emit, node.operands))
        text, part = map(self._emit, node.operands)
        if node.function == "contains":
            return self._compare(part, py.In(), text)
        method = "startswith" if node.function == "startsWith" else "endswith"
        return py.Call(py.Attribute(text, method, py.Load()), [part], [])

    def _matches(self, node: Call) -> py.expr | None:
        text, pattern = node.operands
        if text.checked_type.kind is not Kind.STRING or not isinstance(pattern, Literal):
            return None
        return self._call_python(compile_regex(str(pattern.value)).matches, self._emit(text))

    def _or_value(self, node: Call) -> py.expr:
        optional, otherwise = node.operands
        if isinstance(optional, Call) and optional.function in ("_?._", "_[?_]"):
            operand, key = optional.args
            if _is_inner_map(operand) and key.checked_type.kind is Kind.STRING:
                get = py.Attribute(self._emit(operand), "get", py.Load())
                return py.Call(get, [self._emit(key), self._emit(otherwise)], [])
        return self._call_python(runtime.or_value, self._emit(optional), self._emit(otherwise))

    def _or_optional(self, node: Call) -> py.expr:
        return self._call_python(runtime.or_optional, *map(self._emit, node.operands))

    def _dyn(self, node: Call) -> py.expr:
        return self._emit(node.args[0])

    # Loops

    def _comprehension(self, node: Comprehension) -> py.expr:
        if node.macro == "bind":
            return self._bind(node)
        over = self._emit(node.range)
        names = [name for name in (node.var, node.var2) if name]
        mangled = [self._push(name) for name in names]
        try:
            return self._loop(node, self._generator(node, over, mangled))
        finally:
            self._pop(*names)

    def _push(self, name: str) -> str:
        mangled = f"v{next(self._fresh)}"
        self._locals.setdefault(name, []).append(mangled)
        return mangled

    def _pop(self, *names: str) -> None:
        for name in names:
            self._locals[name].pop()

    def _bind(self, node: Comprehension) -> py.expr:
        value = self._emit(node.init)
        name = self._push(node.accu)
        result = self._emit(node.result)
        self._pop(node.accu)
        return py.Call(py.Lambda(py.arguments([], [py.arg(name)], None, [], [], None, []), result), [value], [])

    def _generator(self, node: Comprehension, over: py.expr, names: list[str]) -> py.comprehension:
        targets: list[py.expr] = [py.Name(name, py.Store()) for name in names]
        target = targets[0] if len(targets) == 1 else py.Tuple(targets, py.Store())
        ranged = node.range.checked_type
        named = ranged.kind is Kind.MAP and ranged.params[0].kind is Kind.STRING
        each = runtime.each_pair if node.var2 else runtime.each_name if named else runtime.each
        iterable = self._call_python(each, over, py.Name("interrupt", py.Load()))
        return py.comprehension(target, iterable, [], 0)

    def _loop(self, node: Comprehension, generator: py.comprehension) -> py.expr:
        step = node.step
        assert isinstance(step, Call)
        match node.macro:
            case "all" | "exists":
                test = py.GeneratorExp(self._bool(step.args[1]), [generator])
                return self._call_python(all if node.macro == "all" else any, test)
            case "exists_one":
                generator.ifs = [self._bool(step.args[0])]
                total = self._call_python(sum, py.GeneratorExp(py.Constant(1), [generator]))
                return self._compare(total, py.Eq(), py.Constant(1))
            case "map" | "filter":
                if step.function == "_?_:_":
                    generator.ifs = [self._bool(step.args[0])]
                    step = step.args[1]
                    assert isinstance(step, Call)
                element = step.args[1]
                assert isinstance(element, ListNode)
                return py.ListComp(self._emit(element.elements[0]), [generator])
        raise _Unsupported


def _kinds(node: Call) -> set[Kind]:
    return {operand.checked_type.kind for operand in node.operands}


def _is_inner_map(node: AstNode) -> bool:
    """Return whether the expression is the map of one domain (missing keys are errors), not of all domains."""
    found = node.checked_type
    return found.kind is Kind.MAP and found.params[0].kind is Kind.STRING and found.params[1].kind is not Kind.MAP


_OPERATORS: dict[str, Callable[[_Generator, Call], py.expr | None]] = {
    "_&&_": _Generator._logical,
    "_||_": _Generator._logical,
    "!_": _Generator._not,
    "_?_:_": _Generator._conditional,
    "_==_": _Generator._equality,
    "_!=_": _Generator._equality,
    **dict.fromkeys(_ORDERS, _Generator._order),
    **dict.fromkeys(_INT_ARITHMETIC, _Generator._arithmetic),
    "-_": _Generator._negate,
    "_[_]": _Generator._index,
    "_[?_]": _Generator._optional_index,
    "_?._": _Generator._optional_index,
    "@in": _Generator._in,
    "size": _Generator._size,
    "contains": _Generator._text_test,
    "startsWith": _Generator._text_test,
    "endsWith": _Generator._text_test,
    "matches": _Generator._matches,
    "or": _Generator._or_optional,
    "orValue": _Generator._or_value,
    "dyn": _Generator._dyn,
}
