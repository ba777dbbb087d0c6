"""What validation needs to know of this server: its gates, and checkers of expressions. Left out: the rules themselves."""

from __future__ import annotations

from dray.api import validation
from dray.api.errors import FieldError
from dray.api.gates import FeatureGates
from dray.apiserver.request import Request
from dray.apiserver.write.rule_checks import RuleChecks
from dray.apiserver.write.selector_checks import SelectorChecks, Validate


class Validators:
    """The contexts of validation, one for each version that clients speak."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self._selectors = SelectorChecks(gates)
        self._rules = RuleChecks()
        self._contexts: dict[str, validation.Context] = {}

    def validated(self, validate: Validate) -> list[FieldError] | None:
        """What validation finds wrong; None where it takes waiting to know (`waited_for`), which is rare."""
        self._rules.start({})
        errors = self._selectors.validated(validate)
        return None if self._rules.missing else errors

    async def waited_for(self, validate: Validate) -> list[FieldError]:
        """What the validation that has just been done finds wrong, with every expression checked."""
        if not self._rules.missing:
            return await self._selectors.waited_for(validate)
        known = await self._rules.find_out()

        def again() -> list[FieldError]:
            self._rules.start(known)
            return validate()

        errors = self._selectors.validated(again)
        return errors if errors is not None else await self._selectors.waited_for(again)

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
