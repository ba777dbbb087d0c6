"""Estimates the maximum cost of an expression before it is evaluated.

Every variable, selection and call has a cost. A loop multiplies the cost of its body by the maximum size of its
range. Sizes come from literals, from the declared limits of devices, and from the estimated results of functions.
The estimate decides whether the API accepts an object, so it equals the estimate of Kubernetes in every detail.
"""

from __future__ import annotations

import msgspec

from dray.cel.ast import AstNode, Call, Comprehension, Ident, ListNode, Literal, MapNode, Select, Struct
from dray.cel.environment import every_function
from dray.cel.macros import ACCUMULATOR, OLD_ACCUMULATOR
from dray.cel.prices import Argument, Estimate
from dray.cel.ranges import EMPTY, NOTHING, ONE, UNKNOWN, Range, fixed
from dray.cel.sizes import SizePath, Sizes
from dray.cel.types import Kind, Type

_LIST_COST = fixed(10)
_MAP_COST = fixed(30)
_STRUCT_COST = fixed(40)

_SCALARS = frozenset({Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT})


def estimate_cost(tree: AstNode, sizes: Sizes) -> int:
    """Return the maximum cost of evaluating a checked expression, or 2^64-1 if the cost is unbounded."""
    return _Estimator(sizes).cost(tree).most


class _Entries(msgspec.Struct, frozen=True, gc=False):
    """Sizes of the keys and values of a list or map."""

    kind: Kind
    key: Range
    value: Range

    def __or__(self, other: _Entries) -> _Entries:
        return _Entries(self.kind, self.key | other.key, self.value | other.value)


class _Local(msgspec.Struct, frozen=True, gc=False):
    path: SizePath
    size: Range | None
    entries: _Entries | None = None


class _Estimator:
    def __init__(self, sizes: Sizes) -> None:
        self._declared = sizes
        self._locals: dict[str, list[_Local]] = {}
        self._paths: dict[int, SizePath] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}

    def cost(self, node: AstNode) -> Range:
        match node:
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
                return sum((self.cost(one.value) for one in node.fields), _STRUCT_COST)
            case Comprehension():
                return self._bind(node) if _is_bind(node) else self._loop(node)
        return NOTHING

    # Known sizes, paths and entries of expressions

    def _local(self, node: AstNode) -> _Local | None:
        stack = self._locals.get(node.name) if isinstance(node, Ident) else None
        return stack[-1] if stack else None

    def _path(self, node: AstNode) -> SizePath:
        local = self._local(node)
        return local.path if local else self._paths.get(id(node), ())

    def _size(self, node: AstNode) -> Range | None:
        """Return the size range of the expression's value, or None if it is unknown.

        Known are sizes computed before, literals, declared paths, scalars and local variables, in this order.
        """
        known = self._sizes.get(id(node)) or _literal_size(node)
        if known is not None:
            return known
        declared = self._declared.size(self._path(node))
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(node.checked_type):
            return ONE
        local = self._local(node)
        return local.size if local else None

    def _size_or_unknown(self, node: AstNode) -> Range:
        size = self._size(node)
        return UNKNOWN if size is None else size

    def _entries_of(self, node: AstNode) -> _Entries | None:
        known = self._entries.get(id(node))
        if known is not None:
            return known
        local = self._local(node)
        return local.entries if local else None

    def _set_size(self, node: AstNode, size: Range | None) -> None:
        if size is not None:
            self._sizes[id(node)] = size

    def _set_entries(self, node: AstNode, entries: _Entries | None) -> None:
        if entries is not None:
            self._entries[id(node)] = entries

    def _copy_sizes(self, node: AstNode, source: AstNode) -> None:
        self._set_size(node, self._size(source))
        self._set_entries(node, self._entries_of(source))

    # Names, selections, literals

    def _ident(self, node: Ident) -> Range:
        local = self._local(node)
        self._paths[id(node)] = local.path if local else (node.name,)
        return ONE

    def _select(self, node: Select) -> Range:
        if node.name is not None:
            self._paths[id(node)] = (node.name.name,)
            return ONE
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if node.operand.checked_type.kind in (Kind.MAP, Kind.STRUCT, Kind.PARAM):
            cost += ONE
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return cost

    def _list(self, node: ListNode) -> Range:
        cost, item = _LIST_COST, EMPTY if node.elements else NOTHING
        for element in node.elements:
            cost += self.cost(element)
            item |= self._size_or_unknown(element)
        self._entries[id(node)] = _Entries(Kind.LIST, ONE, item)
        return cost

    def _map(self, node: MapNode) -> Range:
        cost = _MAP_COST
        key = value = EMPTY if node.entries else NOTHING
        for entry in node.entries:
            cost += self.cost(entry.key) + self.cost(entry.value)
            key |= self._size_or_unknown(entry.key)
            value |= self._size_or_unknown(entry.value)
        self._entries[id(node)] = _Entries(Kind.MAP, key, value)
        return cost

    # Loops and bindings

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _pop(self, *names: str) -> None:
        for name in names:
            if name:
                self._locals[name].pop()

    def _push_accumulator(self, node: Comprehension) -> None:
        init = node.init
        self._push(node.accu, _Local(self._path(init), self._size(init), self._entries_of(init)))

    def _push_variables(self, node: Comprehension) -> None:
        entries, path = self._entries_of(node.range), self._path(node.range)
        is_list = (entries.kind if entries else node.range.checked_type.kind) is Kind.LIST
        key, value = (entries.key, entries.value) if entries else (None, None)
        element = _Local((*path, "@items" if is_list else "@values"), value)
        index = _Local((*path, "@indices" if is_list else "@keys"), key)
        if node.var2:
            self._push(node.var, index)
            self._push(node.var2, element)
        else:
            self._push(node.var, element if is_list else index)

    def _loop(self, node: Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.init)
        self._push_accumulator(node)
        self._push_variables(node)
        round_cost = self.cost(node.condition) + self.cost(node.step)
        self._pop(node.var, node.var2)
        cost += self.cost(node.result)
        self._pop(node.accu)
        rounds = self._size_or_unknown(node.range)
        if isinstance(node.init, Literal):
            self._set_size(node, self._size(node.init))
        elif isinstance(node.init, (ListNode, MapNode)):
            self._set_size(node, rounds)
            self._set_entries(node, self._entries_of(node.step))
        return cost + rounds * round_cost

    def _bind(self, node: Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.init)
        self._push_accumulator(node)
        cost += self.cost(node.result)
        self._pop(node.accu)
        self._copy_sizes(node, node.result)
        return cost

    # Calls

    def _argument(self, node: AstNode) -> Argument:
        path = self._path(node)
        if path and path[0] in (ACCUMULATOR, OLD_ACCUMULATOR):
            path = ()
        return Argument(node, node.checked_type, path, self._size(node), self._declared)

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            cost = ONE + self.cost(node.args[0])
            self._copy_sizes(node, node.args[0])
            return cost
        costs = [self.cost(argument) for argument in node.args]
        arguments = [self._argument(argument) for argument in node.args]
        total, target = NOTHING, None
        if node.target is not None:
            total = self.cost(node.target)
            target = self._argument(node.target)
        call_cost, size = EMPTY, None
        for overload in node.overloads:
            estimate = self._overload(node, overload, target, arguments, costs)
            call_cost |= estimate.cost
            if estimate.size is not None:
                size = estimate.size if size is None else size | estimate.size
            if overload in ("index_list", "index_map"):
                size = self._index(node, "@items" if overload == "index_list" else "@values")
            if size is None:
                size = self._size(node)
        self._set_size(node, size)
        return total + call_cost

    def _index(self, node: Call, step: str) -> Range | None:
        entries = self._entries_of(node.args[0])
        self._paths[id(node)] = (*self._path(node.args[0]), step)
        return entries.value if entries else None

    def _overload(
        self, node: Call, overload: str, target: Argument | None, arguments: list[Argument], costs: list[Range]
    ) -> Estimate:
        if overload in ("logical_and", "logical_or"):
            return Estimate(Range(costs[0].least, (costs[0] + costs[1]).most))
        if overload == "conditional":
            return self._conditional(node, costs)
        if node.function == "_+_":
            self._join_entries(node)
        function = every_function().get(node.function)
        price = function.price_of(overload) if function is not None else None
        estimate = price.estimate(overload, target, arguments) if price is not None and price.estimate else None
        own = estimate or Estimate(ONE)
        return Estimate(sum(costs, own.cost), own.size)

    def _join_entries(self, node: Call) -> None:
        left, right = map(self._entries_of, node.args)
        if left is not None and right is not None:
            self._set_entries(node, left | right)

    def _conditional(self, node: Call, costs: list[Range]) -> Estimate:
        _, truthy, falsy = node.args
        size = self._size_or_unknown(truthy) | self._size_or_unknown(falsy)
        left, right = self._entries_of(truthy), self._entries_of(falsy)
        if left is not None and right is not None:
            self._set_entries(node, left | right)
        return Estimate(costs[0] + (costs[1] | costs[2]), size)


def _literal_size(node: AstNode) -> Range | None:
    match node:
        case Literal(value=str() | bytes() as value):
            return fixed(len(value))
        case Literal():
            return ONE
        case ListNode():
            return fixed(len(node.elements))
        case MapNode():
            return fixed(len(node.entries))
    return None


def _is_scalar(of: Type) -> bool:
    return of.kind in _SCALARS or (of.is_optional and _is_scalar(of.params[0]))


def _is_bind(node: Comprehension) -> bool:
    empty = isinstance(node.range, ListNode) and not node.range.elements
    never = isinstance(node.condition, Literal) and node.condition.value is False
    return empty and never and node.accu != OLD_ACCUMULATOR
