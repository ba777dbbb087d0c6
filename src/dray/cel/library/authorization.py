"""Authorization functions: an expression builds an authorizer check in several calls and then asks for the decision.

Device selectors can only name these functions, because they have no `authorizer` variable. The authorizer value
carries the function that decides.
"""

from __future__ import annotations

from dataclasses import replace

from dray.api import names
from dray.cel import types
from dray.cel.declarations import Implementation, function, method
from dray.cel.errors import EvaluationError
from dray.cel.prices import AUTHORIZATION
from dray.cel.types import AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK
from dray.cel.values import CelAuthorizer, GroupCheck, PathCheck, ResourceCheck, Value

_S = types.STRING


def _path(authorizer: CelAuthorizer, path: str) -> Value:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer.ask, replace(authorizer.question, path=path))


def _group(authorizer: CelAuthorizer, group: str) -> Value:
    return GroupCheck(authorizer.ask, replace(authorizer.question, group=group))


def _account(authorizer: CelAuthorizer, namespace: str, name: str) -> Value:
    if names.subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return CelAuthorizer(authorizer.ask, replace(authorizer.question, account=(namespace, name)))


def _resource(check: GroupCheck, resource: str) -> Value:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.ask, replace(check.question, resource=resource))


def _with(field: str) -> Implementation:
    def narrowed(check: ResourceCheck, text: str) -> Value:
        return ResourceCheck(check.ask, replace(check.question, **{field: text}))  # type: ignore[arg-type]  # a text field

    return narrowed


def _check(check: PathCheck | ResourceCheck, verb: str) -> Value:
    return check.ask(replace(check.question, verb=verb))


FUNCTIONS = (
    function("path", method("authorizer_path", (AUTHORIZER, _S), PATH_CHECK, _path)),
    function("group", method("authorizer_group", (AUTHORIZER, _S), GROUP_CHECK, _group)),
    function("serviceAccount", method("authorizer_serviceaccount", (AUTHORIZER, _S, _S), AUTHORIZER, _account)),
    function("resource", method("groupcheck_resource", (GROUP_CHECK, _S), RESOURCE_CHECK, _resource)),
    function(
        "subresource", method("resourcecheck_subresource", (RESOURCE_CHECK, _S), RESOURCE_CHECK, _with("subresource"))
    ),
    function("namespace", method("resourcecheck_namespace", (RESOURCE_CHECK, _S), RESOURCE_CHECK, _with("namespace"))),
    function("name", method("resourcecheck_name", (RESOURCE_CHECK, _S), RESOURCE_CHECK, _with("name"))),
    function(
        "check",
        method("pathcheck_check", (PATH_CHECK, _S), DECISION, _check),
        method("resourcecheck_check", (RESOURCE_CHECK, _S), DECISION, _check),
        price=AUTHORIZATION,
    ),
    # The authorizers of this server always reach a decision, so there is never an error.
    function("errored", method("decision_errored", (DECISION,), types.BOOL, lambda decision: False)),
    function("error", method("decision_error", (DECISION,), _S, lambda decision: "")),
    function("allowed", method("decision_allowed", (DECISION,), types.BOOL, lambda decision: decision.allowed)),
    function("reason", method("decision_reason", (DECISION,), _S, lambda decision: decision.reason)),
    function(
        "fieldSelector",
        method("authorizer_fieldselector", (RESOURCE_CHECK, _S), RESOURCE_CHECK, _with("field_selector")),
    ),
    # The authorizers do not use label selectors.
    function(
        "labelSelector",
        method("authorizer_labelselector", (RESOURCE_CHECK, _S), RESOURCE_CHECK, lambda check, _: check),
    ),
)
