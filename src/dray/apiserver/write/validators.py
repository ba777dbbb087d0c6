"""What validation needs to know of this server: its gates, and checkers of expressions. Left out: the rules themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from dray.api import validation
from dray.api.errors import FieldError
from dray.api.gates import FeatureGates
from dray.apiserver.request import Request
from dray.apiserver.write.rule_checks import RuleChecks
from dray.apiserver.write.selector_checks import SelectorChecks, Verdicts

Validate = Callable[[], list[FieldError]]


class Known(NamedTuple):
    """What was found out about expressions for one validation."""

    rules: Mapping[Hashable, Any]
    selectors: Verdicts


NOTHING = Known({}, {})


class Validators:
    """The contexts of validation, one for each version that clients speak."""

    def __init__(self, gates: FeatureGates, selectors: SelectorChecks | None = None, rules: RuleChecks | None = None):
        self._gates = gates
        self._selectors = selectors or SelectorChecks(gates)
        self._rules = rules or RuleChecks()
        self._contexts: dict[str, validation.Context] = {}

    def apart(self) -> Validators:
        """The same for one validation in another thread: it shares nothing that a validation writes to."""
        return Validators(self._gates, self._selectors.apart(), self._rules.apart())

    def validated(self, validate: Validate, known: Known = NOTHING) -> list[FieldError] | None:
        """What validation finds wrong; None where it takes waiting to know (`find_out`), which is rare."""
        rules, selectors = self._rules, self._selectors
        rules.start(known.rules)
        selectors.start(known.selectors)
        errors = validate()
        return None if rules.missing or selectors.missing else errors

    async def find_out(self, known: Known) -> Known:
        """What the validation that has just been done knew and lacked."""
        if self._rules.missing:
            return known._replace(rules=await self._rules.find_out())
        return known._replace(selectors=await self._selectors.find_out())

    async def close(self) -> None:
        await self._selectors.close()
        await self._rules.close()

    def context(self, request: Request) -> validation.Context:
        version = request.version or request.resource.stored
        context = self._contexts.get(version)
        if context is None:
            context = validation.Context(
                self._gates,
                self._selectors.check,
                version,
                _policy_expressions,
                check_derived=self._selectors.check_derived,
                rule_faults=self._rules.faults,
                object_errors=self._rules.errors,
            )
            self._contexts[version] = context
        return context


def _policy_expressions(params: bool, composed: bool) -> validation.PolicyCheck:
    """What is wrong with the expressions of a policy. Imported late: most servers have none."""
    from dray.cel.admission import Compiler

    compiler = Compiler(params=params, composed=composed)

    def check(use: validation.ExpressionUse, expression: str, name: str) -> validation.Complaint | None:
        error = compiler.compile(use, expression, name).error
        if error is None:
            return None
        return validation.Complaint("Invalid" if error.kind == "RuleInvalid" else "InternalError", error.detail)

    return check
