"""Nobody grants more than they have."""

from typing import Any

import pytest

from dray.api.errors import Forbidden
from dray.api.users import ADMIN, User
from dray.apiserver.admission.roles import RoleEscalation
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.rbac import Rbac
from tests.apiserver.admission.writing import create, update
from tests.apiserver.reading import Objects, binding, role, rule, user_subject

JANE = User("jane", groups=("system:authenticated",))
RBAC = "rbac.authorization.k8s.io"


def plugin(*rules: dict[str, Any], **more: Any) -> RoleEscalation:
    """Jane holds these rules in the namespace default; `others` exist beside them."""
    objects = Objects(
        role("janes", *rules, namespace="default"),
        binding("janes", "janes", user_subject("jane"), namespace="default"),
        role("reader", rule("get list", "pods"), namespace="default"),
        role("root", rule("*", "*", "*")),
        *more.get("others", ()),
    )
    rbac = Rbac(objects)
    return RoleEscalation(Union(rbac), rbac)


async def test_role_within_ones_own_rules() -> None:
    await create(plugin(rule("get list", "pods")), role("r", rule("get", "pods"), namespace="default"), user=JANE)


async def test_role_beyond_ones_own_rules() -> None:
    with pytest.raises(Forbidden) as caught:
        await create(plugin(rule("get", "pods")), role("r", rule("get delete", "pods"), namespace="default"), user=JANE)
    assert caught.value.message == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["system:authenticated"]) is attempting '
        'to grant RBAC permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
    )


async def test_rules_of_a_namespace_do_not_count_in_the_cluster() -> None:
    with pytest.raises(Forbidden):
        await create(plugin(rule("get", "pods")), role("r", rule("get", "pods")), user=JANE)


async def test_escalate_is_the_exception() -> None:
    permitted = plugin(rule("escalate", "roles", RBAC))
    await create(permitted, role("r", rule("*", "*", "*"), namespace="default"), user=JANE)


async def test_binding_needs_the_rules_of_its_role() -> None:
    tree = binding("b", "reader", user_subject("bob"), namespace="default")
    await create(plugin(rule("get list", "pods")), tree, user=JANE)
    with pytest.raises(Forbidden, match="not currently held"):
        await create(plugin(rule("get", "pods")), tree, user=JANE)
    root = binding("b", "root", user_subject("jane"), namespace="default", kind="ClusterRole")
    with pytest.raises(Forbidden, match="not currently held"):
        await create(plugin(rule("get", "pods")), root, user=JANE)


async def test_bind_is_the_exception_and_can_name_roles() -> None:
    permitted = plugin(rule("bind", "roles", RBAC, "reader"))
    await create(permitted, binding("b", "reader", user_subject("bob"), namespace="default"), user=JANE)
    root = binding("b", "root", user_subject("jane"), namespace="default", kind="ClusterRole")
    with pytest.raises(Forbidden):
        await create(permitted, root, user=JANE)


async def test_unknown_role_is_not_bound_by_just_anybody() -> None:
    tree = binding("b", "later", user_subject("bob"), namespace="default")
    with pytest.raises(Forbidden, match=r'role.rbac.authorization.k8s.io "later" not found'):
        await create(plugin(rule("get", "pods")), tree, user=JANE)
    await create(plugin(), tree, user=ADMIN)


async def test_update_that_grants_nothing_new_passes() -> None:
    old = role("r", rule("delete", "pods"), namespace="default")
    new = role("r", rule("delete", "pods"), namespace="default", metadata={"labels": {"a": "b"}})
    await update(plugin(rule("get", "pods")), old, new, user=JANE)
    before = binding("b", "root", user_subject("bob"), namespace="default", kind="ClusterRole")
    after = {**before, "metadata": {**before["metadata"], "labels": {"a": "b"}}}
    await update(plugin(rule("get", "pods")), before, after, user=JANE)
    widened = {**before, "subjects": [*before["subjects"], user_subject("jane")]}
    with pytest.raises(Forbidden):
        await update(plugin(rule("get", "pods")), before, widened, user=JANE)


async def test_aggregation_is_for_cluster_admins() -> None:
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    tree = role("r", aggregationRule=selectors)
    with pytest.raises(Forbidden, match="must have cluster-admin privileges"):
        await create(plugin(rule("get", "pods")), tree, user=JANE)
    everything = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    others = [role("all", rule("*", "*", "*"), everything), binding("all", "all", user_subject("jane"))]
    await create(plugin(others=others), tree, user=JANE)


async def test_masters_are_not_asked() -> None:
    await create(plugin(), role("r", rule("*", "*", "*")), user=ADMIN)


GATHER = "rbac.authorization.k8s.io/aggregate-to-view"


def gathering(name: str, label: str = GATHER, **metadata: Any) -> dict[str, Any]:
    selectors = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
    return role(name, metadata=metadata, aggregationRule=selectors)


def clustered(*rules: dict[str, Any]) -> RoleEscalation:
    """Jane holds these rules in the whole cluster, where view gathers roles, and auditor gathers view."""
    objects = Objects(
        role("janes", *rules),
        binding("janes", "janes", user_subject("jane")),
        role("root", rule("*", "*", "*")),
        gathering("view", labels={"to-auditor": "true"}),
        gathering("auditor", "to-auditor"),
        role("pods", rule("get", "pods"), metadata={"labels": {GATHER: "true"}}),
    )
    rbac = Rbac(objects)
    return RoleEscalation(Union(rbac), rbac)


async def test_a_label_that_lets_a_role_be_gathered_is_a_grant() -> None:
    root = role("root", rule("*", "*", "*"))
    labelled = role("root", rule("*", "*", "*"), metadata={"labels": {GATHER: "true"}})
    patcher = clustered(rule("patch update get", "clusterroles", RBAC))
    with pytest.raises(Forbidden, match="not currently held"):
        await update(patcher, root, labelled, user=JANE)
    await update(patcher, labelled, root, user=JANE)
    await update(patcher, root, role("root", rule("*", "*", "*"), metadata={"labels": {"a": "b"}}), user=JANE)
    harmless, gathered = (
        role("r", rule("get", "pods"), metadata={"labels": labels}) for labels in ({}, {GATHER: "true"})
    )
    await update(clustered(rule("get", "pods")), harmless, gathered, user=JANE)


async def test_escalate_on_every_role_that_grows_is_the_exception() -> None:
    root = role("root", rule("*", "*", "*"))
    labelled = role("root", rule("*", "*", "*"), metadata={"labels": {GATHER: "true"}})
    with pytest.raises(Forbidden, match="not currently held"):
        await update(clustered(rule("escalate", "clusterroles", RBAC, "root view")), root, labelled, user=JANE)
    await update(clustered(rule("escalate", "clusterroles", RBAC, "view auditor")), root, labelled, user=JANE)


async def test_what_a_gathering_role_gathers_counts_when_it_is_gathered_itself() -> None:
    everything = gathering("everything", "", labels={})
    everything["aggregationRule"] = {"clusterRoleSelectors": [{}]}
    labelled = {**everything, "metadata": {"name": "everything", "labels": {GATHER: "true"}}}
    with pytest.raises(Forbidden, match="not currently held"):
        await update(clustered(rule("get", "pods")), everything, labelled, user=JANE)


async def test_taking_an_aggregation_rule_away_needs_everything() -> None:
    view = gathering("view", labels={"to-auditor": "true"})
    stripped = role("view", metadata=view["metadata"])
    with pytest.raises(Forbidden, match="must have cluster-admin privileges to use an aggregationRule"):
        await update(clustered(rule("get", "pods")), view, stripped, user=JANE)
    await update(clustered(rule("escalate", "clusterroles", RBAC, "view")), view, stripped, user=JANE)


async def test_a_wildcard_does_not_cover_a_verb_that_lifts_a_confinement() -> None:
    exempt = role("r", rule("publish-for-any-node", "resourceslices", "resource.k8s.io"), namespace="default")
    names_it = rule("get publish-for-any-node", "resourceslices", "resource.k8s.io")
    await create(plugin(names_it), exempt, user=JANE)
    with pytest.raises(Forbidden, match="not currently held"):
        await create(plugin(rule("*", "resourceslices", "resource.k8s.io")), exempt, user=JANE)
