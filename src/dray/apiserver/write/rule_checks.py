"""Checks custom resources by their schemas and rules without holding up the event loop, however costly that is.

As with selectors (`selector_checks`), validation does not wait: what takes long is noted the first time, found out in
another process, and known the second time. An object is judged on the loop for 10 ms; rules that were compiled until
then are kept. Left out: how values are judged (`dray.api.custom`), and rules (`custom.rules`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dray.api.custom import SchemaNode
from dray.api.custom.judgement import judged
from dray.api.errors import FieldError, InternalError
from dray.api.wire import Tree
from dray.apiserver.computing import computed
from dray.apiserver.quickly import quickly
from dray.background import Background
from dray.cel.errors import TooSlow
from dray.cel.limits import Interrupt

if TYPE_CHECKING:
    from dray.apiserver.custom.rule_checking import ObjectChecking, RuleChecking

AT_ONCE = 512  # characters of rules in a schema that are checked on the loop

_encode = msgspec.json.Encoder().encode


class RuleChecks:
    """What is wrong with rules, and with objects by rules."""

    def __init__(self, background: Background | None = None) -> None:
        self._background = background or Background()
        # Of the validation that is being done:
        self._known: Mapping[Hashable, Any] = {}
        self.missing: dict[Hashable, RuleChecking | ObjectChecking] = {}

    def apart(self) -> RuleChecks:
        """The same checks for one validation in another thread: it shares nothing that a validation writes to."""
        return RuleChecks(self._background)

    def start(self, known: Mapping[Hashable, Any]) -> None:
        """Begin a validation, with what was found out for it before."""
        self._known = known
        if self.missing:
            self.missing = {}

    async def find_out(self) -> dict[Hashable, Any]:
        """What the validation that has just been done lacked."""
        missing = self.missing
        await computed(self._background, list(missing.values()), "the schema and its validation rules")
        if any(checking.answer is None for checking in missing.values()):
            raise InternalError("validation rules could not be checked: the process that does so has ended")
        return {key: checking.answer for key, checking in missing.items()}

    async def close(self) -> None:
        await self._background.close()

    def faults(self, node: SchemaNode) -> Iterable[FieldError]:
        """What is wrong with the rules of a schema."""
        if not node.has_rules:
            return ()
        from dray.apiserver.custom.rule_checking import RuleChecking  # late: most servers have no custom resources
        from dray.apiserver.custom.rules import faults

        schema = _encode(node.schema)
        if _length(node) <= AT_ONCE and schema not in self._known:
            try:
                return list(faults(node, quickly()))
            except TooSlow:  # rules are asked about defaults, which may be long
                pass
        return cast(Iterable[FieldError], self._answer(schema, lambda: RuleChecking(schema)))

    def errors(self, node: SchemaNode, tree: Tree, old: Tree | None) -> Iterable[FieldError]:
        """What a schema and its rules say against an object."""
        if not self._known:
            try:
                return judged(node, tree, old, _rules, quickly())
            except TooSlow:
                pass
        from dray.apiserver.custom.rule_checking import ObjectChecking

        key = id(node), _encode(tree), _encode(old)
        found = self._answer(key, lambda: ObjectChecking(_encode(node.schema), tree, old))
        return cast(Iterable[FieldError], found)

    def _answer(self, key: Hashable, checking: Any) -> Any:
        """What is known; nothing for now where it must be found out first."""
        if key in self._known:
            return self._known[key]
        self.missing[key] = checking()
        return ()


def _rules(node: SchemaNode, tree: Tree, old: Tree | None, interrupt: Interrupt) -> Iterable[FieldError]:
    from dray.apiserver.custom.rules import errors  # late: most schemas have no rules

    return errors(node, tree, old, interrupt)


def _length(node: SchemaNode) -> int:
    """How many characters the rules of a schema have."""
    own = sum(len(rule.rule) + len(rule.message_expression) for rule in node.rules)
    below = [*node.properties.values(), *filter(None, (node.additional, node.items))]
    return own + sum(_length(part) for part in below if part.has_rules)
