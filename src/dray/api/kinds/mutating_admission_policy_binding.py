"""MutatingAdmissionPolicyBinding: the requests to which a MutatingAdmissionPolicy applies."""

from __future__ import annotations

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text
from dray.api.kind import API_EXTENSIONS, KindRules, Resource
from dray.api.kinds.validating_admission_policy_binding import param_ref
from dray.api.matching import policy_defaults
from dray.api.types import admissionregistration

KIND = Resource(
    admissionregistration.MutatingAdmissionPolicyBinding,
    namespaced=False,
    categories=API_EXTENSIONS,
    columns=(NAME, text("PolicyName", "spec.policyName"), text("ParamRef", param_ref, UNSET), AGE),
    generation=("spec",),
    conditional=("v1",),
    rules=KindRules(order=("metadata", "rules", "changes"), any_finalizer=True),
    defaults=policy_defaults("spec.matchResources"),
)
