"""MutatingAdmissionPolicy: CEL expressions that can change objects."""

from __future__ import annotations

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, number, text
from dray.api.kind import API_EXTENSIONS, KindRules, Resource
from dray.api.kinds.validating_admission_policy import param_kind
from dray.api.matching import policy_defaults
from dray.api.types import admissionregistration

KIND = Resource(
    admissionregistration.MutatingAdmissionPolicy,
    namespaced=False,
    categories=API_EXTENSIONS,
    columns=(
        NAME,
        number("Mutations", lambda policy: len(policy.spec.mutations)),
        text("ParamKind", param_kind, UNSET),
        AGE,
    ),
    generation=("spec",),
    conditional=("v1",),
    rules=KindRules(order=("metadata", "rules", "changes"), any_finalizer=True),
    defaults={
        "spec.failurePolicy": "Fail",
        "spec.reinvocationPolicy": "Never",
        **policy_defaults("spec.matchConstraints"),
    },
)
