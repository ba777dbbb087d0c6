"""The context that validation needs from this server: feature gates, and checkers of expressions and schemas.

Checking never blocks the event loop, however many and long the expressions are. Short selectors are checked
immediately, up to a limit for each write; custom objects are validated on the loop for up to 10 ms. Everything else
is computed in the worker process, then the validation runs again. Validation rules are in `dray.api.validation`, CEL
in `dray.cel`, schemas in `dray.api.custom`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dray.api import validation
from dray.api.custom import SchemaNode
from dray.api.custom.judgement import judged
from dray.api.errors import FieldError
from dray.api.gates import FeatureGates
from dray.api.needs import KnownValues, Lacking
from dray.api.wire import Tree
from dray.apiserver.request import Request
from dray.apiserver.steps import quickly
from dray.background.resolver import Computing
from dray.cel.errors import TooSlow
from dray.cel.limits import Interrupt

if TYPE_CHECKING:
    from dray.cel import CelFeatures
    from dray.cel.checking import Checked

AT_ONCE = 512  # characters of selectors or schema rules that one write may have checked on the event loop: 20 ms
KEPT = 1024  # cached results for short selectors: most objects come from a few templates

Validator = Callable[[validation.Context], list[FieldError]]

_encode = msgspec.json.Encoder().encode


class Validators:
    """Runs validations with this server's feature gates and checkers, and caches checked selectors."""

    def __init__(self, gates: FeatureGates) -> None:
        self.gates = gates
        self._kept: dict[tuple[str, bool], Checked] = {}
        # By version; validations on the loop run one at a time, so they share one.
        self._on_loop: dict[str, _ValidationChecks] = {}

    def errors(self, request: Request, known: KnownValues, judge: Validator) -> list[FieldError]:
        """Return the errors of a validation. Raises Lacking if results must first be computed in the background.

        A step: it runs in the worker thread if the request is large.
        """
        version = request.version or request.resource.stored
        checks = self._on_loop.get(version) if not request.is_large else None
        if checks is None:
            checks = _ValidationChecks(self, version)
            if not request.is_large:
                self._on_loop[version] = checks
        checks.begin(known)
        errors = judge(checks.context)
        if checks.lacking:
            raise Lacking(known, *checks.lacking.values())
        return errors

    def known(self, asked: tuple[str, bool]) -> Checked | None:
        """Return the cached result for a selector, or None if there is none.

        `asked` is the expression and whether it is a derived attribute.
        """
        return self._kept.get(asked)

    def check(self, expression: str, is_derived: bool) -> Checked:
        """Return the result of checking a short expression, and cache it."""
        from dray.cel import checking  # late: most servers start without a selector to check

        checked = self._kept[expression, is_derived] = checking.check(expression, is_derived, self.features)
        if len(self._kept) > KEPT:
            self._kept.pop(next(iter(self._kept.copy())), None)  # another thread may add an entry at the same time
        return checked

    @property
    def features(self) -> CelFeatures:
        """CEL features enabled by this server's gates."""
        from dray.cel import CelFeatures

        return CelFeatures(self.gates.served("DRAConsumableCapacity"), self.gates.served("DRAListTypeAttributes"))


class _ValidationChecks:
    """Checkers for one validation at a time.

    If a result is missing, they record that in `lacking` and report no errors.
    """

    def __init__(self, validators: Validators, version: str) -> None:
        self._validators = validators
        self._known: KnownValues = {}
        self._room = AT_ONCE
        self.lacking: dict[Any, Computing] = {}
        self.context = validation.Context(
            validators.gates,
            self.selector,
            version,
            _policy_expressions,
            self.derived,
            self.rule_faults,
            self.object_errors,
        )

    def begin(self, known: KnownValues) -> None:
        """Reset for another validation, with the results that were computed for it."""
        self._known, self._room = known, AT_ONCE
        if self.lacking:
            self.lacking = {}

    def selector(self, expression: str) -> validation.Complaint | None:
        """Return the error in a CEL device selector, or None.

        None means that the selector is valid, or that its check is only recorded in `lacking`.
        """
        return self.derived(expression, False)[0]

    def derived(self, expression: str, is_derived: bool = True) -> tuple[validation.Complaint | None, int]:
        """Return the error in a derived attribute, or None, and its maximum cost.

        An expression too long to check now is recorded in `lacking`, and (None, 0) returned.
        """
        key, validators = (expression, is_derived), self._validators
        checked: Checked | None = validators.known(key) or self._known.get(key)
        if checked is None and len(expression) > self._room:
            from dray.cel import checking

            compute = partial(checking.check, expression, is_derived, validators.features)
            self.lacking[key] = Computing(key, "selectors", compute)
            return None, 0
        if checked is None:
            self._room -= len(expression)
            checked = validators.check(*key)
        refusal = checked.refusal
        return validation.Complaint(refusal.reason, refusal.detail) if refusal is not None else None, checked.cost

    def rule_faults(self, node: SchemaNode) -> Iterable[FieldError]:
        """Return the errors in the CEL rules of a schema.

        If checking them takes long, records the computation and returns no errors yet.
        """
        if not node.has_rules:
            return ()
        from dray.apiserver.custom import rule_checking  # late: most servers have no custom resources

        schema = _encode(node.schema)
        if _length(node) <= AT_ONCE and schema not in self._known:
            try:
                return list(rule_checking.faults(node, quickly()))
            except TooSlow:  # rules are evaluated on defaults, which may be long
                pass
        return self._answer(schema, partial(rule_checking.faults_of, schema))

    def object_errors(self, node: SchemaNode, tree: Tree, old: Tree | None) -> Iterable[FieldError]:
        """Return the errors of an object by its schema and CEL rules. `old` is the object before an update, or None.

        If checking takes long, records the computation and returns no errors yet.
        """
        if not self._known:
            try:
                return judged(node, tree, old, _rules, quickly())
            except TooSlow:
                pass
        from dray.apiserver.custom import rule_checking

        key = id(node), _encode(tree), _encode(old)
        return self._answer(key, partial(rule_checking.object_errors, _encode(node.schema), tree, old))

    def _answer(self, key: Any, compute: Callable[[Interrupt], list[FieldError]]) -> Iterable[FieldError]:
        """Return the computed errors for a key.

        If they are not computed yet, records the computation and returns no errors.
        """
        if key in self._known:
            return cast(Iterable[FieldError], self._known[key])
        self.lacking[key] = Computing(key, "schemas", compute)
        return ()


def _rules(node: SchemaNode, tree: Tree, old: Tree | None, interrupt: Interrupt) -> Iterable[FieldError]:
    from dray.apiserver.custom.rules import errors  # late: most schemas have no rules

    return errors(node, tree, old, interrupt)


def _length(node: SchemaNode) -> int:
    """Return the number of characters in the rules of a schema."""
    own = sum(len(rule.rule) + len(rule.message_expression) for rule in node.rules)
    below = [*node.properties.values(), *filter(None, (node.additional, node.items))]
    return own + sum(_length(part) for part in below if part.has_rules)


def _policy_expressions(params: bool, composed: bool) -> validation.PolicyCheck:
    """Return a checker for the CEL expressions of an admission policy.

    Imports late, because most servers have no policies.
    """
    from dray.cel.admission import Compiler

    compiler = Compiler(params=params, composed=composed)

    def check(use: validation.ExpressionUse, expression: str, name: str) -> validation.Complaint | None:
        error = compiler.compile(use, expression, name).error
        if error is None:
            return None
        return validation.Complaint("Invalid" if error.kind == "RuleInvalid" else "InternalError", error.detail)

    return check
