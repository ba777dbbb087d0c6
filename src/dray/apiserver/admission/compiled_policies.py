"""The common part of validating and mutating admission policies after compilation: match conditions and variables."""

from __future__ import annotations

from dray.api.types.admissionregistration import MatchResources, MutatingAdmissionPolicy, ValidatingAdmissionPolicy
from dray.apiserver.admission.conditions import Conditions
from dray.cel.admission import BUDGET, Compiler, Evaluation, ReadVariable
from dray.cel.limits import Interrupt


class CompiledPolicy:
    """A policy with its compiled expressions."""

    def __init__(self, policy: ValidatingAdmissionPolicy | MutatingAdmissionPolicy) -> None:
        spec = policy.spec
        self.name = policy.metadata.name
        self.constraints = spec.matchConstraints or MatchResources()
        self.params = spec.paramKind
        self.ignores_failures = spec.failurePolicy == "Ignore"
        self.compiler = Compiler(params=spec.paramKind is not None, composed=bool(spec.variables))
        self.conditions = Conditions(spec.matchConditions, self.compiler)
        for variable in spec.variables:
            self.compiler.compile("variable", variable.expression, variable.name)

    def evaluation(self, read: ReadVariable, interrupt: Interrupt) -> Evaluation:
        """Return an evaluation of the policy's variables with its own cost budget."""
        return Evaluation(read, self.compiler.variables, BUDGET, interrupt)
