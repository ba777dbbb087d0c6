"""Roles and bindings: what they grant, what they do not, and how fast a change counts."""

import pytest

from dray.api.errors import Forbidden
from dray.api.types.rbac import ClusterRole, RoleBinding
from dray.api.users import ADMIN, User, service_account_user
from dray.apiserver.security.authorization import Attributes, Union
from dray.apiserver.security.authorization.rbac import Rbac
from tests.apiserver.reading import (
    Objects,
    account_subject,
    binding,
    group_subject,
    role,
    rule,
    user_subject,
)

JANE = User("jane", groups=("devs", "system:authenticated"))
DRA = "resource.k8s.io"


def get(name: str = "", namespace: str = "default", resource: str = "pods", **more: str) -> Attributes:
    return Attributes("get", resource=resource, namespace=namespace, name=name, **more)


def allowed(objects: Objects, attributes: Attributes, user: User = JANE) -> bool:
    return Union(Rbac(objects)).authorize(user, attributes).allowed


def granted(*rules: dict[str, object], namespace: str = "default") -> Objects:
    return Objects(role("r", *rules, namespace=namespace), binding("b", "r", user_subject("jane"), namespace=namespace))


def test_role_counts_in_its_namespace_only() -> None:
    objects = granted(rule("get", "pods"))
    assert allowed(objects, get())
    assert not allowed(objects, get(namespace="other"))
    assert not allowed(objects, get(namespace=""))


def test_a_resource_without_a_name_is_no_resource() -> None:
    objects = granted({"verbs": ["*"], "apiGroups": ["*"], "resources": [""]})
    assert not allowed(objects, get())
    assert not allowed(objects, get(subresource="log"))


def test_a_rule_costs_what_it_says_and_not_what_that_multiplies_to() -> None:
    many = [f"x{number}" for number in range(3000)]
    objects = granted({"verbs": many, "apiGroups": ["", *many], "resources": ["pods", *many], "resourceNames": many})
    assert not allowed(objects, get("x7"))
    assert allowed(objects, Attributes("x2999", resource="pods", namespace="default", name="x7"))


def test_cluster_role_bound_in_a_namespace_counts_there() -> None:
    objects = Objects(
        role("r", rule("get", "pods")),
        binding("b", "r", user_subject("jane"), namespace="default", kind="ClusterRole"),
    )
    assert allowed(objects, get())
    assert not allowed(objects, get(namespace="other"))


def test_cluster_binding_counts_everywhere() -> None:
    objects = Objects(role("r", rule("get", "pods")), binding("b", "r", user_subject("jane")))
    assert allowed(objects, get())
    assert allowed(objects, get(namespace="other"))
    assert allowed(objects, get(namespace=""))


@pytest.mark.parametrize(
    ("row", "attributes", "expected"),
    [
        (rule("get", "pods"), get("x"), True),
        (rule("get", "pods"), Attributes("list", resource="pods", namespace="default"), False),
        (rule("*", "pods"), Attributes("list", resource="pods", namespace="default"), True),
        (rule("get", "pods"), get(resource="pods", subresource="log"), False),
        (rule("get", "pods/log"), get(resource="pods", subresource="log"), True),
        (rule("get", "pods/log"), get(resource="pods"), False),
        (rule("get", "*/log"), get(resource="pods", subresource="log"), True),
        (rule("get", "*/log"), get(resource="pods", subresource="exec"), False),
        (rule("get", "*"), get(resource="pods", subresource="log"), True),
        (rule("get", "pods", DRA), get(), False),
        (rule("get", "resourceclaims", f". {DRA}"), get(resource="resourceclaims", group=DRA), True),
        (rule("get", "resourceclaims", "*"), get(resource="resourceclaims", group=DRA), True),
        (rule("get", "pods", names="a b"), get("b"), True),
        (rule("get", "pods", names="a b"), get("c"), False),
        (rule("get", "pods", names="a b"), get(""), False),
        (rule("get", "pods", names=""), get("c"), True),
    ],
)
def test_rules(row: dict[str, object], attributes: Attributes, expected: bool) -> None:
    assert allowed(granted(row), attributes) is expected


@pytest.mark.parametrize(
    ("url", "path", "expected"),
    [
        ("/metrics", "/metrics", True),
        ("/metrics", "/metrics/cadvisor", False),
        ("/healthz/*", "/healthz/etcd", True),
        ("/healthz/*", "/healthz", False),
        ("*", "/anything", True),
    ],
)
def test_paths(url: str, path: str, expected: bool) -> None:
    objects = Objects(role("r", {"verbs": ["get"], "nonResourceURLs": [url]}), binding("b", "r", group_subject("devs")))
    assert allowed(objects, Attributes("get", path=path)) is expected
    assert not allowed(objects, Attributes("post", path=path))


def test_service_account_without_namespace_is_in_the_bindings_own() -> None:
    objects = Objects(
        role("r", rule("get", "pods"), namespace="default"),
        binding("b", "r", {"kind": "ServiceAccount", "name": "robot"}, namespace="default"),
    )
    assert allowed(objects, get(), service_account_user("default", "robot"))
    assert not allowed(objects, get(), service_account_user("other", "robot"))


def test_user_named_like_a_service_account_subject_is_another() -> None:
    objects = Objects(role("r", rule("get", "pods")), binding("b", "r", account_subject("jane", "default")))
    assert not allowed(objects, get())
    assert allowed(objects, get(), service_account_user("default", "jane"))


def test_changes_count_at_once() -> None:
    objects = granted(rule("get", "pods"))
    rbac = Union(Rbac(objects))
    assert rbac.authorize(JANE, get()).allowed
    objects.put(role("r", rule("list", "pods"), namespace="default"))
    assert not rbac.authorize(JANE, get()).allowed
    objects.put(role("r", rule("get", "pods"), namespace="default"))
    assert rbac.authorize(JANE, get()).allowed
    objects.remove(RoleBinding, "default", "b")
    assert not rbac.authorize(JANE, get()).allowed


def aggregate(name: str, *labels: str, own: str = "") -> dict[str, object]:
    selectors = [{"matchLabels": {label: "true"}} for label in labels]
    metadata = {"labels": {own: "true"}} if own else {}
    return role(name, aggregationRule={"clusterRoleSelectors": selectors}, metadata=metadata)


def test_aggregated_role_grants_what_it_selects_and_follows_changes() -> None:
    objects = Objects(
        aggregate("all", "to-all"),
        aggregate("middle", "to-middle", own="to-all"),
        role("part", rule("get", "pods"), metadata={"labels": {"to-middle": "true"}}),
        role("unselected", rule("delete", "pods")),
        binding("b", "all", user_subject("jane")),
    )
    rbac = Union(Rbac(objects))
    assert rbac.authorize(JANE, get()).allowed
    assert not rbac.authorize(JANE, Attributes("delete", resource="pods")).allowed
    objects.remove(ClusterRole, "", "part")
    assert not rbac.authorize(JANE, get()).allowed


def test_roles_that_aggregate_each_other_end() -> None:
    objects = Objects(
        aggregate("a", "to-a", own="to-b"), aggregate("b", "to-b", own="to-a"), binding("b", "a", user_subject("jane"))
    )
    assert not allowed(objects, get())


def test_reason_names_binding_role_and_subject() -> None:
    reason = Rbac(granted(rule("get", "pods"))).authorize(JANE, get()).reason
    assert reason == 'RBAC: allowed by RoleBinding "b/default" of Role "r" to User "jane"'
    objects = Objects(role("r", rule("get", "pods")), binding("b", "r", account_subject("robot", "ns")))
    reason = Rbac(objects).authorize(service_account_user("ns", "robot"), get()).reason
    assert reason == 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to ServiceAccount "robot/ns"'


def test_missing_role_is_named_in_the_refusal() -> None:
    objects = Objects(binding("b", "nope", user_subject("jane")))
    decision = Rbac(objects).authorize(JANE, get())
    assert not decision.allowed
    assert decision.reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "nope" not found'


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        (
            Attributes("get", DRA, "resourceclaims", namespace="default", name="x"),
            'resourceclaims.resource.k8s.io "x" is forbidden: User "jane" cannot get resource "resourceclaims" in API '
            'group "resource.k8s.io" in the namespace "default"',
        ),
        (
            Attributes("list", resource="nodes"),
            'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (
            Attributes("create", resource="pods", subresource="binding", namespace="d", name="p"),
            'pods "p" is forbidden: User "jane" cannot create resource "pods/binding" in API group "" in the namespace "d"',
        ),
        (Attributes("get", path="/metrics"), 'forbidden: User "jane" cannot get path "/metrics"'),
    ],
)
def test_refusal_has_kubernetes_words(attributes: Attributes, text: str) -> None:
    with pytest.raises(Forbidden) as caught:
        Union(Rbac(Objects())).check(JANE, attributes)
    assert caught.value.message == text


def test_masters_need_no_rule() -> None:
    Union(Rbac(Objects())).check(ADMIN, Attributes("delete", resource="nodes", name="n1"))
