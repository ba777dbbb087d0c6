"""The first objects: complete, repaired, and granting no more than they should."""

from typing import Any

import msgspec
import pytest

from dray.api.resources import BY_TYPE, RESOURCES
from dray.api.types.core import ConfigMap, Namespace, ServiceAccount
from dray.api.types.rbac import ClusterRole, ClusterRoleBinding
from dray.api.users import User, service_account_user
from dray.apiserver.read.reader import one
from dray.apiserver.security.authorization import Attributes, Union
from dray.apiserver.security.authorization.bootstrap import AUTOUPDATE, policy, wanted
from dray.apiserver.security.authorization.policy import CONTROLLERS
from dray.apiserver.security.authorization.rbac import Rbac
from tests.apiserver.reading import Objects, account, binding, namespace, user_subject

DRA = "resource.k8s.io"
EVERYBODY = "system:authenticated"


@pytest.fixture(scope="module")
def objects() -> Objects:
    return Objects(*(tree for _, tree in wanted(Objects(), "PEM")))


def may(objects: Objects, user: User, verb: str, resource: str, group: str = "", **more: str) -> bool:
    more.setdefault("namespace", "default")
    return Union(Rbac(objects)).authorize(user, Attributes(verb, group, resource, **more)).allowed


def bound(objects: Objects, role: str) -> User:
    """Somebody with a cluster role in the namespace default."""
    objects.put(binding(f"b-{role}", role, user_subject(f"u-{role}"), namespace="default", kind="ClusterRole"))
    return User(f"u-{role}", groups=(EVERYBODY,))


def test_second_start_has_nothing_to_do(objects: Objects) -> None:
    assert list(wanted(objects, "PEM")) == []


def test_every_object_is_what_the_server_could_read_back(objects: Objects) -> None:
    for resource, tree in policy():
        found = objects.get(resource, "", tree["metadata"]["name"])
        assert found is not None
        assert msgspec.convert(msgspec.to_builtins(found), resource.type) == found


def test_every_namespace_is_furnished() -> None:
    objects = Objects(namespace("old"), account("default", "old", automountServiceAccountToken=False))
    for _, tree in list(wanted(objects, "PEM")):
        objects.put(tree)
    for name in ("default", "kube-system", "kube-public", "kube-node-lease", "old"):
        assert one(objects, Namespace, "", name)
        assert one(objects, ServiceAccount, name, "default")
        found = one(objects, ConfigMap, name, "kube-root-ca.crt")
        assert found
        assert found.data == {"ca.crt": "PEM"}
    kept = one(objects, ServiceAccount, "old", "default")
    assert kept
    assert kept.automountServiceAccountToken is False


def changed(objects: Objects, type_: Any, name: str, **fields: Any) -> None:
    tree = msgspec.to_builtins(objects.get(BY_TYPE[type_], "", name))
    objects.put({**tree, **fields})


def fresh() -> Objects:
    return Objects(*(tree for _, tree in wanted(Objects())))


def test_what_was_taken_from_a_role_comes_back_and_what_was_added_stays() -> None:
    objects = fresh()
    extra = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}
    changed(objects, ClusterRole, "system:kube-scheduler", rules=[extra])
    changed(objects, ClusterRoleBinding, "system:kube-scheduler", subjects=[])
    repairs = list(wanted(objects))
    assert {(resource.kind, tree["metadata"]["name"]) for resource, tree in repairs} == {
        ("ClusterRole", "system:kube-scheduler"),
        ("ClusterRoleBinding", "system:kube-scheduler"),
    }
    assert all(tree["metadata"]["resourceVersion"] for _, tree in repairs)
    for _, tree in repairs:
        objects.put(tree)
    scheduler = User("system:kube-scheduler", groups=(EVERYBODY,))
    assert may(objects, scheduler, "create", "pods", subresource="binding")
    assert may(objects, scheduler, "get", "secrets")
    assert list(wanted(objects)) == []


def test_repair_can_be_declined() -> None:
    objects = fresh()
    metadata = {"name": "system:basic-user", "annotations": {AUTOUPDATE: "false"}}
    changed(objects, ClusterRole, "system:basic-user", rules=[], metadata=metadata)
    assert list(wanted(objects)) == []


def test_view_edit_and_admin_build_on_each_other(objects: Objects) -> None:
    view, edit, admin = (bound(objects, role) for role in ("view", "edit", "admin"))
    for user in (view, edit, admin):
        assert may(objects, user, "list", "resourceclaims", DRA)
    assert not may(objects, view, "create", "resourceclaims", DRA)
    assert not may(objects, view, "get", "secrets")
    for user in (edit, admin):
        assert may(objects, user, "create", "resourceclaims", DRA)
        assert may(objects, user, "get", "secrets")
    assert not may(objects, edit, "create", "roles", "rbac.authorization.k8s.io")
    assert may(objects, admin, "create", "roles", "rbac.authorization.k8s.io")
    assert not may(objects, admin, "update", "resourceclaims", DRA, subresource="status")
    assert not may(objects, admin, "create", "resourcequotas")


def test_every_kind_in_a_namespace_is_for_its_viewers_and_editors_unless_it_is_said_here(objects: Objects) -> None:
    kinds = [resource for resource in RESOURCES if resource.namespaced and "list" in resource.verbs]
    viewer, editor = bound(objects, "view"), bound(objects, "edit")
    unseen = {r.plural for r in kinds if not may(objects, viewer, "list", r.plural, r.group)}
    assert unseen == {"csistoragecapacities", "leases", "rolebindings", "roles", "secrets"}
    made = [resource for resource in kinds if "create" in resource.verbs and resource.group != "events.k8s.io"]
    kept = {r.plural for r in made if not may(objects, editor, "create", r.plural, r.group)}
    made_by_controllers = {"controllerrevisions", "endpoints", "endpointslices"}
    bounds = {"csistoragecapacities", "limitranges", "resourcequotas", "rolebindings", "roles"}
    assert kept == made_by_controllers | bounds


def test_pool_status_is_for_cluster_admins_and_its_controller_only(objects: Objects) -> None:
    users = [bound(objects, role) for role in ("view", "edit", "admin")]
    users += [User("system:kube-scheduler", groups=(EVERYBODY,)), User("jane", groups=(EVERYBODY,))]
    users += [
        service_account_user("kube-system", name)
        for name in CONTROLLERS
        if name not in ("resourcepoolstatusrequest-controller", "generic-garbage-collector", "namespace-controller")
        and name != "resourcequota-controller"
    ]
    for user in users:
        for verb in ("create", "get", "list", "delete"):
            assert not may(objects, user, verb, "resourcepoolstatusrequests", DRA, namespace=""), user.name
    objects.put(binding("root", "cluster-admin", user_subject("root")))
    assert may(objects, User("root"), "create", "resourcepoolstatusrequests", DRA, namespace="")


def test_policy_status_controller_writes_the_status_alone(objects: Objects) -> None:
    controller = service_account_user("kube-system", "validatingadmissionpolicy-status-controller")
    policies = ("validatingadmissionpolicies", "admissionregistration.k8s.io")
    assert may(objects, controller, "watch", *policies, namespace="")
    assert may(objects, controller, "patch", *policies, namespace="", subresource="status")
    assert not may(objects, controller, "patch", *policies, namespace="")


def test_pool_status_controller_reads_and_answers_and_nothing_else(objects: Objects) -> None:
    controller = service_account_user("kube-system", "resourcepoolstatusrequest-controller")
    assert may(objects, controller, "list", "resourceslices", DRA, namespace="")
    assert may(objects, controller, "watch", "resourceclaims", DRA, namespace="")
    assert may(objects, controller, "watch", "devicetaintrules", DRA, namespace="")
    assert may(objects, controller, "patch", "resourcepoolstatusrequests", DRA, namespace="", subresource="status")
    assert may(objects, controller, "delete", "resourcepoolstatusrequests", DRA, namespace="")
    assert not may(objects, controller, "patch", "resourcepoolstatusrequests", DRA, namespace="")
    assert not may(objects, controller, "list", "pods")
    assert not may(objects, controller, "update", "resourceclaims", DRA)


def test_scheduler_allocates_binds_and_makes_claims_and_creates_nothing_else(objects: Objects) -> None:
    scheduler = User("system:kube-scheduler", groups=(EVERYBODY,))
    assert may(objects, scheduler, "patch", "resourceclaims", DRA, subresource="status")
    assert may(objects, scheduler, "create", "pods", subresource="binding")
    assert may(objects, scheduler, "create", "resourceclaims", DRA)  # for extended resources
    assert may(objects, scheduler, "delete", "resourceclaims", DRA)
    assert not may(objects, scheduler, "create", "resourceclaimtemplates", DRA)
    assert not may(objects, scheduler, "create", "pods")
    assert not may(objects, scheduler, "create", "pods")


def test_controller_manager_has_what_its_controllers_need(objects: Objects) -> None:
    manager = User("system:kube-controller-manager", groups=(EVERYBODY,))
    assert may(objects, manager, "create", "resourceclaims", DRA)
    assert may(objects, manager, "create", "pods")
    assert may(objects, manager, "update", "namespaces", subresource="finalize", namespace="")
    assert not may(objects, manager, "create", "clusterrolebindings", "rbac.authorization.k8s.io", namespace="")
    assert not may(objects, manager, "impersonate", "users", namespace="")


def test_everybody_may_ask_about_themselves(objects: Objects) -> None:
    jane = User("jane", groups=(EVERYBODY,))
    assert may(objects, jane, "create", "selfsubjectaccessreviews", "authorization.k8s.io", namespace="")
    authorize = Union(Rbac(objects)).authorize
    assert authorize(jane, Attributes("get", path="/apis/resource.k8s.io/v1")).allowed
    assert not authorize(jane, Attributes("get", path="/metrics")).allowed
    assert not may(objects, jane, "get", "pods")
