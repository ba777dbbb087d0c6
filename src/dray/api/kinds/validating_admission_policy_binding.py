"""ValidatingAdmissionPolicyBinding: the requests to which a ValidatingAdmissionPolicy applies."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text
from dray.api.errors import invalid
from dray.api.kind import API_EXTENSIONS, KindRules, Resource
from dray.api.matching import policy_defaults
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import admissionregistration


def param_ref(
    binding: admissionregistration.ValidatingAdmissionPolicyBinding
    | admissionregistration.MutatingAdmissionPolicyBinding,
) -> str:
    """Return the parameters of a binding as `namespace/name`, `*` for a missing part; empty if it has none."""
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


def actions(values: Sequence[str], path: Path) -> Errors:
    """Yield an error if a binding has both actions Deny and Warn."""
    if {"Deny", "Warn"} <= set(values):
        text = "must not contain both Deny and Warn (repeating the same validation failure information in the API "
        yield invalid(path, values, f"{text}response and headers serves no purpose)")
