"""What validation needs to know of this server: its gates, and checkers of expressions. Left out: the rules themselves."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api import validation
from dray.api.custom import Node
from dray.api.errors import FieldError
from dray.api.gates import FeatureGates
from dray.api.wire import Tree
from dray.apiserver.request import Request
from dray.apiserver.write.selector_checks import SelectorChecks


class Validators:
    """The contexts of validation, one for each version that clients speak."""

    def __init__(self, gates: FeatureGates) -> None:
        self._gates = gates
        self.selectors = SelectorChecks(gates)
        self._contexts: dict[str, validation.Context] = {}

    def context(self, request: Request) -> validation.Context:
        version = request.version or request.resource.stored
        context = self._contexts.get(version)
        if context is None:
            context = validation.Context(
                self._gates,
                self.selectors.check,
                version,
                _policy_expressions,
                check_derived=self.selectors.check_derived,
                rule_faults=_rule_faults,
                rule_errors=_rule_errors,
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


def _rule_faults(node: Node) -> Iterable[validation.RuleFault]:
    """What is wrong with the rules of a custom resource. Imported late for the same reason."""
    from dray.apiserver.custom.rules import faults

    return faults(node) if node.has_rules else ()


def _rule_errors(node: Node, tree: Tree, old: Tree | None) -> Iterable[FieldError]:
    """What the rules of a custom resource say against an object."""
    from dray.apiserver.custom.rules import errors

    return errors(node, tree, old)
