"""The authorization library by name only: selectors have no authorizer, so that none of this can be called."""

from __future__ import annotations

from dray.cel import types
from dray.cel.declarations import function, method
from dray.cel.types import Kind, Type

_PREFIX = "kubernetes.authorization."
_AUTHORIZER = Type(Kind.STRUCT, _PREFIX + "Authorizer")
_PATH = Type(Kind.STRUCT, _PREFIX + "PathCheck")
_GROUP = Type(Kind.STRUCT, _PREFIX + "GroupCheck")
_RESOURCE = Type(Kind.STRUCT, _PREFIX + "ResourceCheck")
_DECISION = Type(Kind.STRUCT, _PREFIX + "Decision")
_S = types.STRING

FUNCTIONS = (
    function("path", method("authorizer_path", (_AUTHORIZER, _S), _PATH)),
    function("group", method("authorizer_group", (_AUTHORIZER, _S), _GROUP)),
    function("serviceAccount", method("authorizer_serviceaccount", (_AUTHORIZER, _S, _S), _AUTHORIZER)),
    function("resource", method("groupcheck_resource", (_GROUP, _S), _RESOURCE)),
    function("subresource", method("resourcecheck_subresource", (_RESOURCE, _S), _RESOURCE)),
    function("namespace", method("resourcecheck_namespace", (_RESOURCE, _S), _RESOURCE)),
    function("name", method("resourcecheck_name", (_RESOURCE, _S), _RESOURCE)),
    function(
        "check",
        method("pathcheck_check", (_PATH, _S), _DECISION),
        method("resourcecheck_check", (_RESOURCE, _S), _DECISION),
    ),
    function("errored", method("decision_errored", (_DECISION,), types.BOOL)),
    function("error", method("decision_error", (_DECISION,), _S)),
    function("allowed", method("decision_allowed", (_DECISION,), types.BOOL)),
    function("reason", method("decision_reason", (_DECISION,), _S)),
    function("fieldSelector", method("authorizer_fieldselector", (_RESOURCE, _S), _RESOURCE)),
    function("labelSelector", method("authorizer_labelselector", (_RESOURCE, _S), _RESOURCE)),
)
