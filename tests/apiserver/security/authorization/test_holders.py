"""Rights go to whom they were given, and end where their reason ends."""

from __future__ import annotations

from msgspec.structs import replace

from dray.api.types.rbac import PolicyRule
from dray.api.users import node_user, service_account_user
from dray.apiserver.security.authorization import ANY_NODE, Attributes, Union
from dray.apiserver.security.authorization.node import NodeAuthorizer
from dray.apiserver.security.authorization.rbac import Rbac
from tests.apiserver.reading import Objects, account_subject, binding, not_held, pod, role, rule


def test_a_service_account_of_another_namespace_gets_what_a_binding_gives_it_and_its_namesake_does_not() -> None:
    objects = Objects(
        role("r", rule("get", "pods"), namespace="here"),
        binding("b", "r", account_subject("robot", "there"), namespace="here"),
    )
    rbac = Union(Rbac(objects))
    asked = Attributes("get", resource="pods", namespace="here")
    assert rbac.authorize(service_account_user("there", "robot"), asked).allowed
    assert not rbac.authorize(service_account_user("here", "robot"), asked).allowed


def test_a_node_loses_a_secret_when_its_pod_comes_back_elsewhere_or_without_it() -> None:
    volume = {"name": "v", "secret": {"secretName": "s"}}
    objects = Objects(pod("p", node="n1", volumes=[volume]))
    authorizer = NodeAuthorizer(objects)
    asked = Attributes("get", resource="secrets", namespace="default", name="s")
    assert authorizer.authorize(node_user("n1"), asked).allowed
    objects.put(pod("p", node="n2", volumes=[volume]))
    assert not authorizer.authorize(node_user("n1"), asked).allowed
    assert authorizer.authorize(node_user("n2"), asked).allowed
    objects.put(pod("p", node="n2"))
    assert not authorizer.authorize(node_user("n2"), asked).allowed


def test_a_wildcard_does_not_lift_the_confinement_to_a_node() -> None:
    user = service_account_user("here", "robot")
    asked = Attributes(ANY_NODE, "resource.k8s.io", "resourceslices")
    subject = account_subject("robot", "here")
    everything, named = ({"verbs": [verb], "apiGroups": ["*"], "resources": ["*"]} for verb in ("*", ANY_NODE))
    objects = Objects(role("all", everything), binding("b", "all", subject))
    assert Rbac(objects).authorize(user, replace(asked, verb="delete")).allowed
    assert not Rbac(objects).authorize(user, asked).allowed
    assert Rbac(Objects(role("named", named), binding("b", "named", subject))).authorize(user, asked).allowed


def test_who_has_a_wildcard_may_not_give_away_what_it_does_not_include() -> None:
    mine = PolicyRule(verbs=("*",), apiGroups=("*",), resources=("*",))
    wanted = PolicyRule(verbs=(ANY_NODE,), apiGroups=("resource.k8s.io",), resources=("resourceslices",))
    assert not_held([mine], wanted) == [wanted]
    assert not_held([mine, wanted], wanted) == []
