"""Reviews: requests that ask the server for a user's identity or permissions.

A review is posted, answered and not stored. The caller has already decoded and validated the body; only errors
specific to reviews are raised here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dray.api.errors import BadRequest, FieldError, Invalid, invalid
from dray.api.resources import BY_TYPE
from dray.api.types.authentication import SelfSubjectReview, TokenReview
from dray.api.types.authorization import (
    LocalSubjectAccessReview,
    ResourceAttributes,
    SelfSubjectAccessReview,
    SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReview,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
)
from dray.api.types.rbac import PolicyRule
from dray.api.users import User
from dray.api.wire import Tree, Wire
from dray.apiserver.request import Request
from dray.apiserver.security.authentication import Authenticator
from dray.apiserver.security.authorization import Attributes, Union
from dray.apiserver.security.authorization.rbac import Rbac
from dray.apiserver.security.tokens import TokenInvalid


class Reviews:
    """Answers all kinds of reviews of one server."""

    def __init__(self, authenticator: Authenticator, authorizer: Union, rbac: Rbac) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._rbac = rbac
        self._answers: dict[type[Wire], Callable[[User, str, Any], Tree]] = {
            TokenReview: self._token,
            SelfSubjectReview: self._self,
            SubjectAccessReview: self._subject_access,
            LocalSubjectAccessReview: self._local_subject_access,
            SelfSubjectAccessReview: self._self_access,
            SelfSubjectRulesReview: self._self_rules,
        }

    def review(self, user: User, type_: type[Wire], namespace: str, tree: Tree) -> Tree:
        """Answer a review. Returns `tree`, which is changed in place. Raises BadRequest or Invalid."""
        if not isinstance(tree, dict):
            raise BadRequest(f"{type_.__name__}: expected an object")
        try:
            asked = msgspec.convert(tree, type_)
        except msgspec.ValidationError as error:
            raise BadRequest(f"{type_.__name__} cannot be decoded: {error}") from error
        tree |= {"apiVersion": asked.apiVersion, "kind": asked.kind}  # type: ignore[attr-defined]  # reviews have both
        tree.setdefault("metadata", {})
        if type_ is not SelfSubjectReview:
            tree.setdefault("spec", {})
        tree["status"] = self._answers[type_](user, namespace, asked)
        return tree

    def by_plural(self) -> dict[str, Callable[[Request], Tree]]:
        """Return the function that answers each kind of review, by plural name."""

        def answer(request: Request) -> Tree:
            return self.review(request.user, request.resource.type, request.namespace, request.body)

        return {BY_TYPE[type_].plural: answer for type_ in self._answers}

    def _self(self, user: User, namespace: str, review: SelfSubjectReview) -> Tree:
        """Return the status of a SelfSubjectReview: the requesting user."""
        return {"userInfo": user.info()}

    def _token(self, user: User, namespace: str, review: TokenReview) -> Tree:
        """Return the status of a TokenReview: the token's user and audiences, or an error if the token is invalid.

        Raises BadRequest if the review has no token.
        """
        if not review.spec.token:
            raise BadRequest("token is required for TokenReview in authentication")
        try:
            found, audiences = self._authenticator.token(review.spec.token, review.spec.audiences)
        except TokenInvalid as error:
            return {"user": {}, "error": f"invalid bearer token: {error}"}
        answer: Tree = {"authenticated": True, "user": found.info()}
        return {**answer, "audiences": list(audiences)} if audiences else answer

    def _self_access(self, user: User, namespace: str, review: SelfSubjectAccessReview) -> Tree:
        """Return the status of a SelfSubjectAccessReview: whether the requesting user may perform the action.

        Raises Invalid unless exactly one of resource and non-resource attributes is set.
        """
        self._check_attributes(review, review.spec)
        return self._decide(user, review.spec)

    def _subject_access(self, user: User, namespace: str, review: SubjectAccessReview) -> Tree:
        """Return the status of a SubjectAccessReview: whether the user in its spec may perform the action.

        Raises Invalid if the review names neither user nor groups, or does not have exactly one of resource and
        non-resource attributes.
        """
        self._check_attributes(review, review.spec)
        if not review.spec.user and not review.spec.groups:
            text = "at least one of user or group must be specified"
            raise _refused(review, invalid("spec.user", review.spec.user, text))
        asked = User(review.spec.user, review.spec.uid, review.spec.groups, review.spec.extra)
        return self._decide(asked, review.spec)

    def _local_subject_access(self, user: User, namespace: str, review: LocalSubjectAccessReview) -> Tree:
        """Return the status of a LocalSubjectAccessReview, for an action in its own namespace.

        Raises Invalid for others.
        """
        about = review.spec.resourceAttributes
        if about and about.namespace != namespace:
            text = f"must match metadata.namespace: {namespace}"
            raise _refused(review, invalid("spec.resourceAttributes.namespace", about.namespace, text))
        if review.spec.nonResourceAttributes:
            text = "disallowed on this kind of request"
            raise _refused(review, invalid("spec.nonResourceAttributes", None, text))
        return self._subject_access(user, namespace, review)  # type: ignore[arg-type]  # the specs are the same type

    def _self_rules(self, user: User, namespace: str, review: SelfSubjectRulesReview) -> Tree:
        """Return the status of a SelfSubjectRulesReview: the requesting user's rules in a namespace.

        The rules of a node are marked as incomplete. Raises BadRequest if the review has no namespace.
        """
        if not review.spec.namespace:
            raise BadRequest("no namespace on request")
        rules = self._rbac.rules(user, review.spec.namespace)
        incomplete = bool(user.node)
        answer: Tree = {
            "resourceRules": [
                _rule(rule, "apiGroups", "resources", "resourceNames") for rule in rules if rule.resources
            ],
            "nonResourceRules": [_rule(rule, "nonResourceURLs") for rule in rules if rule.nonResourceURLs],
            "incomplete": incomplete,
        }
        if incomplete:
            answer["evaluationError"] = "node authorizer does not support user rule resolution"
        return answer

    def _check_attributes(self, review: Wire, spec: SubjectAccessReviewSpec | SelfSubjectAccessReviewSpec) -> None:
        """Raise Invalid unless exactly one of resource and non-resource attributes is set."""
        if bool(spec.resourceAttributes) == bool(spec.nonResourceAttributes):
            both = spec.resourceAttributes is not None
            text = "cannot be specified in combination with resourceAttributes" if both else ""
            text = text or "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            field = "spec.nonResourceAttributes" if both else "spec.resourceAttributes"
            raise _refused(review, invalid(field, None, text))

    def _decide(self, user: User, spec: SubjectAccessReviewSpec | SelfSubjectAccessReviewSpec) -> Tree:
        """Return the authorizer's decision as a status."""
        decision = self._authorizer.authorize(user, _attributes(spec))
        answer: Tree = {"allowed": decision.allowed}
        if decision.denied:
            answer["denied"] = True
        return {**answer, "reason": decision.reason} if decision.reason else answer


def _attributes(spec: SubjectAccessReviewSpec | SelfSubjectAccessReviewSpec) -> Attributes:
    """Return the action that a review asks about."""
    if spec.nonResourceAttributes:
        return Attributes(spec.nonResourceAttributes.verb, path=spec.nonResourceAttributes.path)
    about = spec.resourceAttributes or ResourceAttributes()
    selector = about.fieldSelector.rawSelector if about.fieldSelector else ""
    if about.fieldSelector and not selector:
        selector = ",".join(
            f"{requirement.key}={requirement.values[0]}"
            for requirement in about.fieldSelector.requirements
            if requirement.operator == "In" and len(requirement.values) == 1
        )
    return Attributes(
        about.verb,
        about.group,
        about.resource,
        about.subresource,
        about.namespace,
        about.name,
        field_selector=selector,
    )


def _rule(rule: PolicyRule, *fields: str) -> Tree:
    """Return a rule with its verbs and the named fields as a tree."""
    row: Tree = {"verbs": list(rule.verbs)}
    row.update({field: list(getattr(rule, field)) for field in fields if getattr(rule, field)})
    return row


def _refused(review: Wire, error: FieldError) -> Invalid:
    return Invalid(BY_TYPE[type(review)], "", [error])
