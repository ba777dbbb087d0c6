"""ValidatingAdmissionPolicyBinding: the requests to which a ValidatingAdmissionPolicy applies."""

from __future__ import annotations

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text
from dray.api.kind import API_EXTENSIONS, KindRules, Resource
from dray.api.matching import policy_defaults
from dray.api.types import admissionregistration


def param_ref(
    binding: admissionregistration.ValidatingAdmissionPolicyBinding
    | admissionregistration.MutatingAdmissionPolicyBinding,
) -> str:
    """Return the namespace and name of a binding's parameters; empty if it has none."""
    reference = binding.spec.paramRef
    return f"{reference.namespace or '*'}/{reference.name or '*'}" if reference else ""


KIND = Resource(
    admissionregistration.ValidatingAdmissionPolicyBinding,
    namespaced=False,
    categories=API_EXTENSIONS,
    columns=(NAME, text("PolicyName", "spec.policyName"), text("ParamRef", param_ref, UNSET), AGE),
    generation=("spec",),
    conditional=("v1",),
    rules=KindRules(order=("metadata", "rules", "changes"), any_finalizer=True),
    defaults=policy_defaults("spec.matchResources"),
)
