"""Reviews: the server's own questions about users, tokens and permissions."""

from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import BadRequest, Invalid
from dray.api.types.authentication import SelfSubjectReview, TokenReview
from dray.api.types.authorization import (
    LocalSubjectAccessReview,
    SelfSubjectAccessReview,
    SelfSubjectRulesReview,
    SubjectAccessReview,
)
from dray.api.users import ADMIN, User, node_user
from dray.apiserver.security.authentication import Authenticator
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.node import NodeAuthorizer
from dray.apiserver.security.authorization.rbac import Rbac
from dray.apiserver.security.authorization.reviews import Reviews
from dray.apiserver.security.certificates import Keys
from dray.apiserver.security.tokens import ISSUER, TokenAuthority
from tests.apiserver.reading import Objects, account, binding, role, rule, user_subject

DRA = "resource.k8s.io"
CLAIMS = {"group": DRA, "resource": "resourceclaims", "verb": "get", "namespace": "default"}
JANE = User("jane", "42", ("devs",), {"scopes": ("a", "b")})


@pytest.fixture
def tokens(tmp_path: Path) -> TokenAuthority:
    return TokenAuthority(Objects(account("robot")), Keys.open(tmp_path).signing_key)


@pytest.fixture
def reviews(tokens: TokenAuthority) -> Reviews:
    objects = Objects(
        role("r", rule("get", "resourceclaims", DRA, "a b"), namespace="default"),
        binding("b", "r", user_subject("jane"), namespace="default"),
        role("urls", {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}),
        binding("urls", "urls", user_subject("jane")),
    )
    rbac = Rbac(objects)
    authorizer = Union(NodeAuthorizer(objects), rbac)
    return Reviews(Authenticator(authorizer, tokens, {"secret": ADMIN}), authorizer, rbac)


def status(reviews: Reviews, type_: Any, spec: Any, user: User = JANE, namespace: str = "") -> Any:
    return reviews.review(user, type_, namespace, {"kind": type_.__name__, "spec": spec})["status"]


def test_review_is_answered_in_place(reviews: Reviews) -> None:
    tree = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": CLAIMS},
    }
    assert reviews.review(ADMIN, SelfSubjectAccessReview, "", tree) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": CLAIMS},
        "status": {"allowed": True},
    }


def test_access_of_oneself_and_of_others(reviews: Reviews) -> None:
    named = {"resourceAttributes": {**CLAIMS, "name": "a"}}
    answer = {"allowed": True, "reason": 'RBAC: allowed by RoleBinding "b/default" of Role "r" to User "jane"'}
    assert status(reviews, SelfSubjectAccessReview, named) == answer
    assert status(reviews, SubjectAccessReview, {**named, "user": "jane"}, ADMIN) == answer
    assert status(reviews, SubjectAccessReview, {**named, "user": "bob"}, ADMIN) == {"allowed": False}
    assert status(reviews, SelfSubjectAccessReview, {"resourceAttributes": CLAIMS}) == {"allowed": False}


def test_paths(reviews: Reviews) -> None:
    for path, allowed in (("/metrics", True), ("/logs", False)):
        spec = {"nonResourceAttributes": {"path": path, "verb": "get"}}
        assert status(reviews, SelfSubjectAccessReview, spec)["allowed"] is allowed


def test_field_selector_counts_for_nodes(reviews: Reviews) -> None:
    attributes = {"group": DRA, "resource": "resourceslices", "verb": "list"}
    requirement = {"key": "spec.nodeName", "operator": "In", "values": ["n1"]}
    for selector in ({"rawSelector": "spec.nodeName=n1"}, {"requirements": [requirement]}):
        spec = {"resourceAttributes": {**attributes, "fieldSelector": selector}}
        assert status(reviews, SelfSubjectAccessReview, spec, node_user("n1"))["allowed"]
        assert not status(reviews, SelfSubjectAccessReview, spec, node_user("n2"))["allowed"]


def test_local_review_is_about_its_namespace(reviews: Reviews) -> None:
    spec = {"resourceAttributes": {**CLAIMS, "name": "a"}, "user": "jane"}
    assert status(reviews, LocalSubjectAccessReview, spec, ADMIN, "default")["allowed"]
    with pytest.raises(Invalid, match=r"spec.resourceAttributes.namespace: Invalid value: \"default\""):
        status(reviews, LocalSubjectAccessReview, spec, ADMIN, "other")


@pytest.mark.parametrize(
    "spec",
    [
        {"user": "jane"},
        {"user": "jane", "resourceAttributes": CLAIMS, "nonResourceAttributes": {"path": "/", "verb": "get"}},
        {"resourceAttributes": CLAIMS},
    ],
)
def test_review_of_nothing_or_nobody_is_refused(reviews: Reviews, spec: Any) -> None:
    with pytest.raises(Invalid):
        status(reviews, SubjectAccessReview, spec, ADMIN)


def test_rules_of_oneself(reviews: Reviews) -> None:
    answer = status(reviews, SelfSubjectRulesReview, {"namespace": "default"})
    assert answer == {
        "resourceRules": [
            {"verbs": ["get"], "apiGroups": [DRA], "resources": ["resourceclaims"], "resourceNames": ["a", "b"]}
        ],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
        "incomplete": False,
    }
    assert status(reviews, SelfSubjectRulesReview, {"namespace": "default"}, node_user("n1"))["incomplete"]
    with pytest.raises(BadRequest, match="no namespace"):
        status(reviews, SelfSubjectRulesReview, {})


def test_who_one_is(reviews: Reviews) -> None:
    tree = reviews.review(JANE, SelfSubjectReview, "", {"kind": "SelfSubjectReview"})
    assert tree["status"]["userInfo"] == {
        "username": "jane",
        "uid": "42",
        "groups": ["devs"],
        "extra": {"scopes": ["a", "b"]},
    }
    assert "spec" not in tree


def test_token_review(reviews: Reviews, tokens: TokenAuthority) -> None:
    token = tokens.request("default", "robot", {})["status"]["token"]
    answer = status(reviews, TokenReview, {"token": token}, ADMIN)
    assert answer["authenticated"]
    assert answer["user"]["username"] == "system:serviceaccount:default:robot"
    assert answer["audiences"] == [ISSUER]
    assert "authenticated" not in status(reviews, TokenReview, {"token": token, "audiences": ["vault"]}, ADMIN)
    assert status(reviews, TokenReview, {"token": "wrong"}, ADMIN)["error"]
    with pytest.raises(BadRequest, match="token is required"):
        status(reviews, TokenReview, {}, ADMIN)


@pytest.mark.parametrize("body", [None, [], "x", {"spec": "x"}, {"spec": {"user": 1}}])
def test_malformed_review_is_refused(reviews: Reviews, body: Any) -> None:
    with pytest.raises(BadRequest):
        reviews.review(ADMIN, SubjectAccessReview, "", body)
