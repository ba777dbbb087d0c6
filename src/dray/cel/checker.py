"""Type checker: assigns a type to every expression, resolves names, and selects the overloads of each call."""

from __future__ import annotations

from typing import NamedTuple

from dray.api.names import CEL_RESERVED
from dray.cel import types
from dray.cel.ast import AstNode, Call, Comprehension, Ident, ListNode, Literal, MapNode, Select, Struct, children
from dray.cel.declarations import Environment, Function
from dray.cel.errors import MAX_PROBLEMS, CelIssue, Problems
from dray.cel.types import Kind, Type, list_of, map_of, optional_of
from dray.cel.unification import Bindings, instantiate, most_general
from dray.cel.values import type_of


def check(tree: AstNode, environment: Environment) -> None:
    """Write types and overloads into the nodes of `tree`. Raises Problems if the expression is not well typed."""
    checker = _Checker(environment)
    checker.check(tree)
    if checker.problems:
        raise Problems(*checker.problems, more=checker.more)
    checker.settle(tree)


class _Resolution(NamedTuple):
    """Result of resolving a call: its type (None if no overload matches), the ids of the matching overloads, and
    how many type parameters were created.
    """

    result: Type | None
    overloads: tuple[str, ...]
    fresh: int


class _Checker:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._scopes: list[dict[str, Type]] = []
        self._bindings = Bindings()
        self._fresh = 0
        self._resolved: dict[tuple[str, bool, tuple[Type, ...]], _Resolution] = {}  # calls without type parameters
        self.problems: list[CelIssue] = []
        self.more = 0  # number of problems beyond MAX_PROBLEMS, which are only counted

    def check(self, node: AstNode) -> Type:
        """Set and return the type of an expression; the type may still contain type parameters."""
        match node:
            case Literal():
                node.type = type_of(node.value)
            case Ident():
                node.type = self._ident(node)
            case Select():
                node.type = self._select(node)
            case Call():
                node.type = self._call(node)
            case ListNode():
                node.type = self._list(node)
            case MapNode():
                node.type = self._map(node)
            case Struct():
                node.type = self._struct(node)
            case Comprehension():
                node.type = self._comprehension(node)
        return node.checked_type

    def settle(self, node: AstNode) -> None:
        """Replace type parameters in the types of `node` and its descendants by their bound types, or dyn."""
        node.type = self._bindings.settle(node.checked_type)
        for child in children(node):
            self.settle(child)

    def _complain(self, node: AstNode | int, message: str) -> Type:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(CelIssue(message, node.offset if isinstance(node, AstNode) else node))
        else:
            self.more += 1
        return types.ERROR

    def _new_param(self) -> Type:
        self._fresh += 1
        return types.param(f"_var{self._fresh - 1}")

    # Names

    def _local(self, name: str) -> Type | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _global(self, name: str) -> Type | None:
        return self._environment.variables.get(name) or self._environment.types.get(name)

    def _named(self, node: Ident, name: str) -> Type | None:
        local = None if name.startswith(".") else self._local(name.partition(".")[0])
        if local is not None:
            return local if "." not in name else None
        name = name.removeprefix(".")
        found = self._global(name)
        if found is not None:
            node.name, node.is_global = name, True
            if found.kind is Kind.TYPE:
                node.constant = found.params[0]
        return found

    def _ident(self, node: Ident) -> Type:
        found = self._named(node, node.name)
        if found is None:
            return self._complain(node, f"undeclared reference to '{node.name}' (in container '')")
        return found

    def _select(self, node: Select) -> Type:
        name = None if node.test else qualified_name(node)
        if name is not None:
            resolved = Ident(node.offset, name)
            found = self._named(resolved, name)
            if found is not None:
                node.name, resolved.type = resolved, found
                return found
        operand = self.check(node.operand)
        node.field = self._declared_name(operand, node.field)
        result = self._field_type(node, operand, node.field)
        return types.BOOL if node.test else self._bindings.substitute(result)

    def _declared_name(self, operand: Type, field: str) -> str:
        """Return the name by which the operand's type declares a field.

        For a reserved word like `namespace`, this is `__namespace__` if the type declares only that. Otherwise it is
        the name itself.
        """
        if field not in CEL_RESERVED:
            return field
        operand = self._bindings.substitute(operand)
        target = operand.params[0] if operand.is_optional else operand
        fields = self._environment.fields.get(target.name, {}) if target.kind is Kind.STRUCT else {}
        escaped = f"__{field}__"
        return escaped if field not in fields and escaped in fields else field

    def _field_type(self, node: AstNode, operand: Type, field: str, optional: bool = False) -> Type:
        operand = self._bindings.substitute(operand)
        target = operand.params[0] if operand.is_optional else operand
        match target.kind:
            case Kind.MAP:
                result = target.params[1]
            case Kind.STRUCT:
                result = self._struct_field(node, target, field)
            case Kind.PARAM:
                self._bindings.unify([types.DYN], [target])
                result = types.DYN
            case _:
                if not target.is_dyn and target.kind is not Kind.ERROR:
                    self._complain(node, f"type '{target}' does not support field selection")
                result = types.DYN
        return optional_of(result) if optional or operand.is_optional else result

    def _struct_field(self, node: AstNode, struct: Type, field: str) -> Type:
        if self._environment.is_dynamic(struct.name):
            return types.DYN
        fields = self._environment.fields.get(struct.name)
        if fields is None:
            return self._complain(node, f"unexpected failed resolution of '{struct.name}'")
        if field not in fields:
            return self._complain(node, f"undefined field '{field}'")
        return fields[field]

    # Calls

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal)
            field.type = types.STRING
            node.overloads = ("select_optional_field",)
            operand = self.check(node.args[0])
            field.value = self._declared_name(operand, str(field.value))
            result = self._field_type(node, operand, field.value, optional=True)
            return self._bindings.substitute(result)
        arguments = [self.check(argument) for argument in node.args]
        if node.target is not None:
            prefix = qualified_name(node.target)
            named = self._environment.functions.get(f"{prefix}.{node.function}".removeprefix(".")) if prefix else None
            if named is not None:
                node.function, node.target = named.name, None
                return self._resolve_overload(node, named, arguments)
            arguments.insert(0, self.check(node.target))
        function = self._environment.functions.get(node.function.removeprefix("."))
        if function is None:
            return self._complain(node, f"undeclared reference to '{node.function}' (in container '')")
        node.function = function.name
        return self._resolve_overload(node, function, arguments)

    def _resolve_overload(self, node: Call, function: Function, arguments: list[Type]) -> Type:
        if function.name in ("_&&_", "_||_"):
            return self._logical(node, function, arguments)
        method = node.target is not None
        question = function.name, method, tuple(arguments)
        known = self._resolved.get(question)
        if known is None:
            known = self._resolve(function, method, arguments)
            if known.result is not None and not known.result.open and not any(of.open for of in arguments):
                self._resolved[question] = known
        else:
            self._fresh += known.fresh
        if known.result is None:
            return self._no_overload(node, function, arguments)
        node.overloads = known.overloads
        return known.result

    def _resolve(self, function: Function, method: bool, arguments: list[Type]) -> _Resolution:
        result: Type | None = None
        found: list[str] = []
        before = self._fresh
        for overload in function.overloads:
            if overload.method != method:
                continue
            fresh = {of: self._new_param() for of in overload.params}
            wanted = [instantiate(fresh, argument) for argument in overload.args] if fresh else overload.args
            if not self._bindings.unify(arguments, wanted):
                continue
            found.append(overload.id)
            candidate = self._bindings.substitute(instantiate(fresh, overload.result))
            if result is None:
                result = candidate
            elif not result.is_dyn and candidate != result:
                result = types.DYN
        return _Resolution(result, tuple(found), self._fresh - before)

    def _logical(self, node: Call, function: Function, arguments: list[Type]) -> Type:
        node.overloads = (function.overloads[0].id,)
        fine = True
        for argument, given in zip(node.args, arguments, strict=True):
            if not self._bindings.unify([given], [types.BOOL]):
                self._complain(argument, f"expected type 'bool' but found '{given}'")
                fine = False
        return types.BOOL if fine else types.ERROR

    def _no_overload(self, node: Call, function: Function, arguments: list[Type]) -> Type:
        shown = [str(self._bindings.settle(argument)) for argument in arguments]
        target = f"{shown.pop(0)}." if node.target is not None else ""
        signature = f"{target}({', '.join(shown)})"
        return self._complain(node, f"found no matching overload for '{function.name}' applied to '{signature}'")

    # Literals of lists, maps and structs

    def _join(self, previous: Type | None, current: Type) -> Type:
        """Return the common type of two list elements, or dyn. A validator, not this method, rejects mixed types.

        `previous` is None for the first element.
        """
        if previous is None:
            return current
        return most_general(previous, current) if self._bindings.unify([previous], [current]) else types.DYN

    def _unwrapped(self, node: AstNode, of: Type, optional: bool) -> Type:
        if not optional:
            return of
        if of.is_optional:
            return of.params[0]
        if not of.is_dyn:
            self._complain(node, f"expected type '{optional_of(of)}' but found '{of}'")
        return of

    def _list(self, node: ListNode) -> Type:
        element: Type | None = None
        for position, item in enumerate(node.elements):
            current = self._unwrapped(item, self.check(item), position in node.optional)
            element = self._join(element, current)
        return list_of(element or self._new_param())

    def _map(self, node: MapNode) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._join(key, self.check(entry.key))
            current = self._unwrapped(entry.value, self.check(entry.value), entry.optional)
            value = self._join(value, current)
        if key is None or value is None:
            return map_of(self._new_param(), self._new_param())
        return map_of(key, value)

    def _struct(self, node: Struct) -> Type:
        name = node.name.removeprefix(".")
        if name in self._environment.made or self._environment.is_dynamic(name):
            return self._made(node, Type(Kind.STRUCT, name))
        for one in node.fields:
            one.value.type = types.ERROR
        if name in self._environment.types:
            return self._complain(node, f"'{name}' is not a message type")
        return self._complain(node, f"undeclared reference to '{node.name}' (in container '')")

    def _made(self, node: Struct, struct: Type) -> Type:
        node.name = struct.name
        for one in node.fields:
            found = self._unwrapped(one.value, self.check(one.value), one.optional)
            wanted = self._struct_field(one.value, struct, one.field)
            if wanted.kind is not Kind.ERROR and not self._bindings.unify([wanted], [found]):
                shown = self._bindings.settle(found)
                complaint = f"expected type of field '{one.field}' is '{wanted}' but provided type is '{shown}'"
                self._complain(one.offset, complaint)
        return struct

    # Loops

    def _comprehension(self, node: Comprehension) -> Type:
        over = self._bindings.substitute(self.check(node.range))
        accumulator = self.check(node.init)
        self._scopes.append({node.accu: accumulator})
        self._scopes.append(self._loop_variables(node, over))
        self._assert(node.condition, types.BOOL)
        self._assert(node.step, accumulator)
        self._scopes.pop()
        result = self.check(node.result)
        self._scopes.pop()
        return self._bindings.substitute(result)

    def _assert(self, node: AstNode, wanted: Type) -> None:
        found = self.check(node)
        if not self._bindings.unify([wanted], [found]):
            self._complain(node, f"expected type '{wanted}' but found '{found}'")

    def _loop_variables(self, node: Comprehension, over: Type) -> dict[str, Type]:
        match over.kind:
            case Kind.LIST:
                first, second = over.params[0], over.params[0]
                if node.var2:
                    first = types.INT
            case Kind.MAP:
                first, second = over.params
            case Kind.DYN | Kind.ERROR | Kind.PARAM:
                self._bindings.unify([types.DYN], [over])
                first = second = types.DYN
            case _:
                complaint = f"expression of type '{over}' cannot be range of a comprehension"
                self._complain(node.range, f"{complaint} (must be list, map, or dynamic)")
                first = second = types.ERROR
        return {node.var: first, node.var2: second} if node.var2 else {node.var: first}


def qualified_name(node: AstNode) -> str | None:
    """Return `a.b.c` as one dotted name, or None if the expression is anything but a chain of names."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, Ident) else None
