"""A request as the CEL expressions of admission policies read it: trees in one version, created on demand."""

from __future__ import annotations

from functools import cached_property

from dray.api.types.core import Namespace
from dray.api.users import service_account_user
from dray.api.wire import Tree, Wire, tree_of
from dray.apiserver.admission import AdmissionRequest
from dray.apiserver.admission.matching import described, presented
from dray.apiserver.admission.policy_params import Params
from dray.apiserver.read.reader import Reader, one
from dray.apiserver.security.authorization import Attributes, Union
from dray.cel.library.times import parse_timestamp
from dray.cel.values import AuthorizerCheck, CelAuthorizer, CelDecision, ResourceCheck, Value

_TIMES = ("creationTimestamp", "deletionTimestamp", "lastTransitionTime")
_HIDDEN = ("managedFields", "ownerReferences", "selfLink")


class PolicyView:
    """One request in one version. Creating it raises Lacking if a webhook must convert the object first."""

    def __init__(self, request: AdmissionRequest, version: str, reader: Reader, authorizer: Union) -> None:
        self._request = request
        self._version = version
        self._reader = reader
        self._authorizer = authorizer
        if request.resource.converts:  # raise Lacking here rather than during an evaluation
            _ = self._object, self._old

    def read(self, name: str) -> Value:
        """Return the value of a variable of all policies.

        Any name other than the known variables gives `authorizer.requestResource`.
        """
        match name:
            case "object":
                return self._object
            case "oldObject":
                return self._old
            case "request":
                return self._described
            case "namespaceObject":
                return self._namespace
            case "authorizer":
                return CelAuthorizer(self._ask)
        return self._request_check()

    def read_with(self, params: Params, name: str) -> Value:
        """Return the value of a variable; `params` are the policy's parameters."""
        return params if name == "params" else self.read(name)

    @cached_property
    def _object(self) -> Tree | None:
        return self._presented(self._request.object)

    @cached_property
    def _old(self) -> Tree | None:
        return self._presented(self._request.old)

    def _presented(self, state: Wire | None) -> Tree | None:
        return presented(self._request, self._version, state) if state is not None else None

    @cached_property
    def _described(self) -> Tree:
        return described(self._request, self._version)

    @cached_property
    def _namespace(self) -> Tree | None:
        name = self._request.namespace
        namespace = one(self._reader, Namespace, "", name) if name else None
        return _shown_namespace(namespace) if namespace is not None else None

    def _request_check(self) -> ResourceCheck:
        """Return the authorization check of the request itself (authorizer.requestResource)."""
        request, resource = self._request, self._request.resource
        question = AuthorizerCheck(
            group=resource.group,
            resource=resource.plural,
            subresource=request.subresource,
            namespace=request.namespace,
            name=request.name,
        )
        return ResourceCheck(self._ask, question)

    def _ask(self, question: AuthorizerCheck) -> CelDecision:
        """Return the authorizer's decision on a check, for the user of the request or a service account."""
        user = service_account_user(*question.account) if question.account else self._request.user
        attributes = Attributes(
            question.verb,
            question.group,
            question.resource,
            question.subresource,
            question.namespace,
            question.name,
            question.path,
            question.field_selector,
        )
        decision = self._authorizer.authorize(user, attributes)
        return CelDecision(decision.allowed, decision.reason)


def _shown_namespace(namespace: Namespace) -> Tree:
    """Return a Namespace with the types that CEL declares: timestamps, and `UID` in upper case as in Kubernetes."""
    tree = tree_of(namespace)
    metadata = {key: value for key, value in tree["metadata"].items() if key not in _HIDDEN}
    if "uid" in metadata:
        metadata["UID"] = metadata.pop("uid")
    status = dict(tree.get("status") or {})
    if "conditions" in status:
        status["conditions"] = [_timed(condition) for condition in status["conditions"]]
    return {"metadata": _timed(metadata), "spec": tree.get("spec") or {}, "status": status}


def _timed(tree: Tree) -> Tree:
    """Return the tree with creationTimestamp and similar fields as CEL timestamps instead of strings."""
    return {**tree, **{name: parse_timestamp(tree[name]) for name in _TIMES if tree.get(name)}}
