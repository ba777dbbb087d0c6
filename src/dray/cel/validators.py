"""Checks a well-typed expression for errors in literal arguments, mixed lists and maps, and format clauses."""

from __future__ import annotations

from collections.abc import Iterator

from dray.cel.ast import AstNode, Call, ListNode, Literal, MapNode, children
from dray.cel.declarations import Environment
from dray.cel.errors import CelIssue, EvaluationError, Problems
from dray.cel.library.formatting import FormatError, check_format
from dray.cel.library.regex import compile_regex
from dray.cel.limits import UNMETERED
from dray.cel.types import Type


def validate(tree: AstNode, environment: Environment) -> None:
    """Check a type-checked expression.

    Raises Problems if a validator complains.
    """
    problems = [
        problem
        for node, mixed in _walk(tree)
        for problem in (*_literal_argument(node, environment), *_format(node), *(() if mixed else _mixed(node)))
    ]
    if problems:
        raise Problems(*problems)


def _walk(tree: AstNode) -> Iterator[tuple[AstNode, bool]]:
    """Yield all nodes, each with whether mixed lists are permitted: they are in the arguments of `format`."""
    pending = [(tree, False)]
    while pending:
        node, mixed = pending.pop()
        yield node, mixed
        inner = mixed or (isinstance(node, Call) and node.function == "format")
        pending += [(child, inner) for child in reversed(children(node))]


def _literal_argument(node: AstNode, environment: Environment) -> Iterator[CelIssue]:
    if not isinstance(node, Call) or node.function not in ("duration", "timestamp", "matches") or not node.args:
        return
    argument = node.args[0]
    if not isinstance(argument, Literal):
        return
    try:
        if node.function == "matches":
            compile_regex(str(argument.value))
        else:
            environment.functions[node.function].bind(node.overloads)(UNMETERED, argument.value)
    except EvaluationError:
        yield CelIssue(f"invalid {node.function} argument", argument.offset)


def _format(node: AstNode) -> Iterator[CelIssue]:
    if not (isinstance(node, Call) and node.function == "format" and isinstance(node.target, Literal)):
        return
    arguments = node.args[0]
    if isinstance(node.target.value, str) and isinstance(arguments, ListNode):
        try:
            check_format(node.target.value, arguments.elements)
        except FormatError as error:
            yield CelIssue(str(error), (error.node or node).offset)


def _mixed(node: AstNode) -> Iterator[CelIssue]:
    if isinstance(node, ListNode):
        first: Type | None = None
        for position, element in enumerate(node.elements):
            found = _unwrapped(element, position in node.optional)
            if first is not None and not first.equivalent(found):
                yield _mismatch(element, first, found)
                return
            first = first or found
    elif isinstance(node, MapNode) and node.entries:
        head = node.entries[0]
        key, value = head.key.checked_type, _unwrapped(head.value, head.optional)
        for entry in node.entries[1:]:
            if not key.equivalent(entry.key.checked_type):
                yield _mismatch(entry.key, key, entry.key.checked_type)
            found = _unwrapped(entry.value, entry.optional)
            if not value.equivalent(found):
                yield _mismatch(entry.value, value, found)


def _unwrapped(node: AstNode, optional: bool) -> Type:
    found = node.checked_type
    return found.params[0] if optional and found.params else found


def _mismatch(node: AstNode, wanted: Type, found: Type) -> CelIssue:
    return CelIssue(f"expected type '{wanted}' but found '{found}'", node.offset)
