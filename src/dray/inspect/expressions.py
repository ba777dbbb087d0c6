"""Analysis of CEL selectors: attributes and capacities used, whether their existence is checked, and parts joined by
`&&`.

Works on the syntax tree without evaluation. Only the usual ways to name an attribute are recognised
(`device.attributes["domain"].name` and its variations, including `cel.bind`); computed names are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dray.api.reasons.selector_faults import Place
from dray.cel.ast import AstNode, Call, Comprehension, Ident, Literal, Select, children
from dray.cel.errors import Problems
from dray.cel.lexer import tokenize
from dray.cel.parser import parse

KINDS = {"attributes": "attribute", "capacity": "capacity"}
_COMPARISONS = {"_==_": "=", "_!=_": "≠", "_>=_": "≥", "_<=_": "≤", "_>_": ">", "_<_": "<"}
_METHODS = {"isGreaterThan": ">", "isLessThan": "<"}
_OPENING, _CLOSING = "([{", ")]}"


class AttributePath(NamedTuple):
    """A path in the device: all its attributes or capacities, those of a domain, or a single one."""

    kind: str
    domain: str | None = None
    name: str | None = None


class AttributeAccess(NamedTuple):
    """Use of one attribute or capacity. `guarded`: the expression does not fail on devices that lack the attribute."""

    kind: str
    domain: str
    name: str
    guarded: bool

    @property
    def place(self) -> Place:
        return Place(self.kind, self.domain, self.name)

    @property
    def label(self) -> str:
        """Text such as `attribute NAME` or `capacity NAME`."""
        return f"{KINDS[self.kind]} {self.name}"

    def code(self) -> str:
        """Return the CEL expression that reads the attribute."""
        return f'device.{self.kind}["{self.domain}"].{self.name}'


BoundPaths = Mapping[str, AttributePath]


def accesses(expression: str) -> list[AttributeAccess]:
    """Return the distinct attributes and capacities that an expression uses; empty if it cannot be parsed.

    An access is guarded only if all uses of the name are.
    """
    try:
        tree = parse(expression)
    except Problems:
        return []
    found: dict[tuple[str, str, str], bool] = {}
    for access in _walk(tree, frozenset(), {}):
        key = access[:3]
        found[key] = found.get(key, True) and access.guarded
    return [AttributeAccess(*key, guarded) for key, guarded in found.items()]


def _walk(node: AstNode, guards: frozenset[AttributePath], bound: BoundPaths) -> Iterator[AttributeAccess]:
    """Yield each use of an attribute below a node.

    `guards` are paths known to exist, `bound` the `cel.bind` variables. An access is guarded if it is optional, a
    test with `has`, or on a path in `guards`.
    """
    optional = isinstance(node, Call) and node.function in ("_?._", "_[?_]")
    tested = isinstance(node, Select) and node.test
    path = _path(node, bound)
    if path is not None and path.domain is not None and path.name is not None:
        yield AttributeAccess(path.kind, path.domain, path.name, optional or tested or path in guards)
        return
    match node:
        case Call(function="_&&_"):
            # If one side of && is false, a failure of the other side is ignored, whatever the order.
            inner = guards | {guard for part in node.args for guard in _guards(part, bound)}
            for part in node.args:
                yield from _walk(part, inner, bound)
        case Call(function="_?_:_"):
            condition, then, otherwise = node.args
            yield from _walk(condition, guards, bound)
            yield from _walk(then, guards.union(_guards(condition, bound)), bound)
            yield from _walk(otherwise, guards, bound)
        case Comprehension(macro="bind"):
            value = _path(node.init, bound)
            if value is None:
                yield from _walk(node.init, guards, bound)
                yield from _walk(node.result, guards, bound)
            else:
                yield from _walk(node.result, guards, {**bound, node.accu: value})
        case _:
            for child in children(node):
                yield from _walk(child, guards, bound)


def _guards(node: AstNode, bound: BoundPaths) -> Iterator[AttributePath]:
    """Yield the paths that certainly exist if an expression is true."""
    match node:
        case Select(test=True):
            if (path := _path(node, bound)) is not None:
                yield path
        case Call(function="@in", args=[Literal(value=str() as key), place]):
            base = _path(place, bound)
            if base is not None and base.domain is not None and base.name is None:
                yield AttributePath(base.kind, base.domain, key)
        case Call(function="_&&_"):
            for part in node.args:
                yield from _guards(part, bound)


def _path(node: AstNode, bound: BoundPaths) -> AttributePath | None:
    """Return the device path that a node refers to, or None.

    None for anything but attributes and capacity of `device` and variables bound to them.
    """
    match node:
        case Ident():
            return bound.get(node.name)
        case Select(operand=Ident(name="device"), field=kind) if kind in KINDS:
            return AttributePath(kind)
        case Select():
            return _step(_path(node.operand, bound), node.field)
        case Call(function="_[_]" | "_[?_]" | "_?._", args=[base, Literal(value=str() as key)]):
            return _step(_path(base, bound), key)
    return None


def _step(base: AttributePath | None, key: str) -> AttributePath | None:
    """Return the path extended by a domain or name, or None if the path cannot be extended.

    A path has at most a domain and a name, in this order.
    """
    if base is None or base.name is not None:
        return None
    return AttributePath(base.kind, key) if base.domain is None else AttributePath(base.kind, base.domain, key)


# Parts


class ExpressionPart(NamedTuple):
    """Part of an expression with its position."""

    text: str
    start: int
    end: int


def parts_of(expression: str) -> list[ExpressionPart]:
    """Return the operands of top-level `&&`, including nested ones like `(a && b) && c`; else the whole expression.

    The whole expression is also returned if it has `||` or `?:` at the top level or cannot be split. Parts have their
    offsets in the expression.
    """
    tokens, problems = tokenize(expression)
    whole = [_part(expression, 0, len(expression))]
    parts: list[ExpressionPart] = []
    depth = start = 0
    for token in tokens:
        if token.kind in _OPENING:
            depth += 1
        elif token.kind in _CLOSING:
            depth -= 1
        elif depth == 0 and token.kind == "&&":
            parts.append(_part(expression, start, token.offset))
            start = token.offset + 2
        if depth < 0 or (depth == 0 and token.kind in ("||", "?")):
            return whole
    parts.append(_part(expression, start, len(expression)))
    if problems or not all(part.text for part in parts):
        return whole
    return [inner for part in parts for inner in _inside(part)]


def _inside(part: ExpressionPart) -> list[ExpressionPart]:
    """Return the operands within a parenthesised part, or the part itself if it has only one."""
    if not (part.text.startswith("(") and part.text.endswith(")")):
        return [part]
    inner = parts_of(part.text[1:-1])
    first = part.start + 1
    return (
        [ExpressionPart(text, first + start, first + end) for text, start, end in inner] if len(inner) > 1 else [part]
    )


def _part(expression: str, start: int, end: int) -> ExpressionPart:
    """Return the stripped text between two positions as a part."""
    text = expression[start:end]
    first = start + len(text) - len(text.lstrip())
    return ExpressionPart(text.strip(), first, first + len(text.strip()))


def conjuncts(expression: str) -> list[str]:
    """Return the texts of the parts; the unchanged expression if there is only one part."""
    parts = parts_of(expression)
    return [part.text for part in parts] if len(parts) > 1 else [expression]


def in_words(part: str) -> str:
    """Return a readable form of a comparison, like `memory ≥ 40Gi`; other expressions are returned unchanged."""
    try:
        tree = parse(part)
    except Problems:
        return part
    match tree:
        case Call(function=function, target=AstNode() as target, args=[amount]) if function in _METHODS:
            sign, name, value = _METHODS[function], _name(target), _constant(amount)
            return f"{name} {sign} {value}" if name and value is not None else part
        case Call(function=function, args=[_, _]) if function in _COMPARISONS:
            sign = _COMPARISONS[function]
        case _:
            return part
    left, right = tree.args
    match left:
        case Call(function="compareTo", target=AstNode() as target, args=[amount]) if _is_zero(right):
            name, value = _name(target), _constant(amount)
        case _:
            name, value = _name(left), _constant(right)
    return f"{name} {sign} {value}" if name and value is not None else part


def _name(node: AstNode) -> str | None:
    """Return the attribute name that a node refers to, or None.

    For a field of `device` itself, this is the field, such as `driver`.
    """
    if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == "device":
        return node.field
    path = _path(node, {})
    return path.name if path is not None else None


def _is_zero(node: AstNode) -> bool:
    return isinstance(node, Literal) and node.value == 0


def _constant(node: AstNode) -> str | None:
    """Return the text of a literal, quantity or semver, or None for other nodes."""
    match node:
        case Literal(value=bool() as value):
            return str(value).lower()
        case Literal():
            return str(node.value)
        case Call(function="quantity" | "semver", args=[Literal(value=value)]):
            return str(value)
    return None
