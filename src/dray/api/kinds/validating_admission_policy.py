"""ValidatingAdmissionPolicy: CEL expressions that can reject requests."""

from __future__ import annotations

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, number, text
from dray.api.kind import API_EXTENSIONS, STATUS, KindRules, Resource
from dray.api.matching import policy_defaults
from dray.api.types import admissionregistration


def param_kind(
    policy: admissionregistration.ValidatingAdmissionPolicy | admissionregistration.MutatingAdmissionPolicy,
) -> str:
    """Return the kind of a policy's parameters as `apiVersion/kind`; empty if it has none."""
    kind = policy.spec.paramKind
    return f"{kind.apiVersion}/{kind.kind}" if kind else ""


KIND = Resource(
    admissionregistration.ValidatingAdmissionPolicy,
    namespaced=False,
    categories=API_EXTENSIONS,
    subresources=STATUS,
    columns=(
        NAME,
        number("Validations", lambda policy: len(policy.spec.validations)),
        text("ParamKind", param_kind, UNSET),
        AGE,
    ),
    generation=("spec",),
    conditional=("v1",),
    rules=KindRules(order=("metadata", "rules", "changes"), any_finalizer=True),
    defaults={"spec.failurePolicy": "Fail", **policy_defaults("spec.matchConstraints")},
)
