"""The node authorizer: a node reads what its pods need and reaches its own, and nothing else."""

from typing import Any

import pytest

from dray.api.types.core import Pod
from dray.api.users import User, node_user
from dray.apiserver.security.authorization import Attributes
from dray.apiserver.security.authorization.node import NodeAuthorizer
from tests.apiserver.reading import Objects, claim, exactly, node, pod, slice_

DRA = "resource.k8s.io"
SCHEDULING = "scheduling.k8s.io"
COORDINATION = "coordination.k8s.io"
NODE = node_user("n1")


def env_from(name: str, kind: str) -> dict[str, Any]:
    return {"name": "c", "image": "app", "envFrom": [{kind: {"name": name}}]}


def env_value(name: str, kind: str) -> dict[str, Any]:
    source = {kind: {"name": name, "key": "k"}}
    return {"name": "c", "image": "app", "env": [{"name": "E", "valueFrom": source}]}


@pytest.fixture
def objects() -> Objects:
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"resourceClaims": [{"name": "shared", "resourceClaimName": "group-claim"}]},
        "status": {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "g-made-abc"}]},
    }
    return Objects(
        node("n1"),
        node("n2"),
        group,
        claim("direct", exactly("r")),
        pod(
            "mine",
            node="n1",
            serviceAccountName="robot",
            resourceClaims=[
                {"name": "a", "resourceClaimName": "direct"},
                {"name": "b", "resourceClaimTemplateName": "t"},
            ],
            schedulingGroup={"podGroupName": "g"},
            containers=[env_from("env-secret", "secretRef"), env_value("key-secret", "secretKeyRef")],
            initContainers=[env_from("env-map", "configMapRef"), env_value("key-map", "configMapKeyRef")],
            imagePullSecrets=[{"name": "pull-secret"}],
            volumes=[
                {"name": "v1", "secret": {"secretName": "volume-secret"}},
                {"name": "v2", "configMap": {"name": "volume-map"}},
                {"name": "v3", "projected": {"sources": [{"secret": {"name": "projected-secret"}}]}},
                {"name": "v4", "projected": {"sources": [{"configMap": {"name": "projected-map"}}]}},
            ],
            status={"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "mine-b-xyz"}]},
        ),
        pod(
            "other",
            node="n2",
            serviceAccountName="other-robot",
            resourceClaims=[{"name": "a", "resourceClaimName": "others"}],
            containers=[env_from("others-secret", "secretRef")],
        ),
        pod("unbound", resourceClaims=[{"name": "a", "resourceClaimName": "unbound-claim"}]),
        slice_("own-slice", "n1"),
        slice_("other-slice", "n2"),
        slice_("cluster-slice"),
    )


def asks(
    objects: Objects,
    verb: str,
    resource: str,
    name: str = "",
    group: str = "",
    *,
    user: User = NODE,
    namespace: str = "default",
    **more: str,
) -> bool:
    attributes = Attributes(verb, group, resource, namespace=namespace, name=name, **more)
    return NodeAuthorizer(objects).authorize(user, attributes).allowed


@pytest.mark.parametrize("name", ["direct", "mine-b-xyz", "group-claim", "g-made-abc"])
def test_node_gets_the_claims_of_its_pods(objects: Objects, name: str) -> None:
    assert asks(objects, "get", "resourceclaims", name, DRA)
    assert not asks(objects, "get", "resourceclaims", name, DRA, user=node_user("n2"))
    assert not asks(objects, "get", "resourceclaims", name, DRA, namespace="elsewhere")


@pytest.mark.parametrize("name", ["others", "unbound-claim", "nope", ""])
def test_node_does_not_get_other_claims(objects: Objects, name: str) -> None:
    assert not asks(objects, "get", "resourceclaims", name, DRA)


@pytest.mark.parametrize("verb", ["list", "watch", "update", "patch", "delete", "create"])
def test_node_only_gets_claims(objects: Objects, verb: str) -> None:
    assert not asks(objects, verb, "resourceclaims", "direct", DRA)
    assert not asks(objects, verb, "resourceclaims", "direct", DRA, subresource="status")


@pytest.mark.parametrize("name", ["env-secret", "key-secret", "pull-secret", "volume-secret", "projected-secret"])
def test_node_reads_the_secrets_of_its_pods(objects: Objects, name: str) -> None:
    assert asks(objects, "get", "secrets", name)
    assert asks(objects, "watch", "secrets", field_selector=f"metadata.name={name}")
    assert not asks(objects, "get", "secrets", "others-secret")
    assert not asks(objects, "list", "secrets")
    assert not asks(objects, "get", "configmaps", name)


@pytest.mark.parametrize("name", ["env-map", "key-map", "volume-map", "projected-map"])
def test_node_reads_the_configuration_of_its_pods(objects: Objects, name: str) -> None:
    assert asks(objects, "get", "configmaps", name)
    assert not asks(objects, "get", "secrets", name)
    assert not asks(objects, "update", "configmaps", name)


def test_access_ends_with_the_pod(objects: Objects) -> None:
    authorizer = NodeAuthorizer(objects)
    attributes = Attributes("get", resource="secrets", namespace="default", name="env-secret")
    assert authorizer.authorize(NODE, attributes).allowed
    assert authorizer.authorize(NODE, attributes).allowed
    objects.remove(Pod, "default", "mine")
    decision = authorizer.authorize(NODE, attributes)
    assert not decision.allowed
    assert decision.reason == "no relationship found between node 'n1' and this object"


def test_access_moves_to_another_pod(objects: Objects) -> None:
    authorizer = NodeAuthorizer(objects)
    attributes = Attributes("get", resource="secrets", namespace="default", name="env-secret")
    assert authorizer.authorize(NODE, attributes).allowed
    objects.put(pod("second", node="n1", containers=[env_from("env-secret", "secretRef")]))
    objects.remove(Pod, "default", "mine")
    assert authorizer.authorize(NODE, attributes).allowed


def test_node_asks_for_tokens_of_its_pods_accounts(objects: Objects) -> None:
    assert asks(objects, "create", "serviceaccounts", "robot", subresource="token")
    assert not asks(objects, "create", "serviceaccounts", "other-robot", subresource="token")
    assert not asks(objects, "create", "serviceaccounts", "", subresource="token")
    assert asks(objects, "get", "serviceaccounts", "robot")


def test_node_gets_the_groups_of_its_pods(objects: Objects) -> None:
    assert asks(objects, "get", "podgroups", "g", SCHEDULING)
    assert not asks(objects, "get", "podgroups", "g", SCHEDULING, user=node_user("n2"))


def test_node_sees_its_own_pods_only(objects: Objects) -> None:
    assert asks(objects, "get", "pods", "mine")
    assert not asks(objects, "get", "pods", "other")
    assert asks(objects, "list", "pods", namespace="", field_selector="spec.nodeName=n1")
    assert asks(objects, "watch", "pods", namespace="", field_selector="status.phase!=Failed,spec.nodeName==n1")
    assert not asks(objects, "list", "pods", namespace="")
    assert not asks(objects, "list", "pods", namespace="", field_selector="spec.nodeName=n2")
    assert not asks(objects, "list", "pods", namespace="", field_selector="spec.nodeName!=n1")


def test_node_sees_itself_only(objects: Objects) -> None:
    assert asks(objects, "get", "nodes", "n1", namespace="")
    assert not asks(objects, "get", "nodes", "n2", namespace="")
    assert asks(objects, "watch", "nodes", namespace="", field_selector="metadata.name=n1")
    assert not asks(objects, "list", "nodes", namespace="")
    assert not asks(objects, "delete", "nodes", "n1", namespace="")


@pytest.mark.parametrize("verb", ["list", "watch", "deletecollection"])
def test_node_lists_slices_with_its_own_selector_only(objects: Objects, verb: str) -> None:
    assert asks(objects, verb, "resourceslices", group=DRA, namespace="", field_selector="spec.nodeName=n1")
    for selector in ("", "spec.nodeName=n2", "spec.nodeName=", "spec.driver=gpu.example.com", "spec.nodeName!=n1"):
        assert not asks(objects, verb, "resourceslices", group=DRA, namespace="", field_selector=selector)


@pytest.mark.parametrize(
    "selector",
    [
        "metadata.name!=a\\,spec.nodeName=n1",
        "metadata.name=a\\,spec.nodeName=n1",
        "spec.nope=x,spec.nodeName=n1",
        "spec.nodeName",
    ],
)
def test_selector_counts_only_if_the_list_reads_it_so(objects: Objects, selector: str) -> None:
    assert not asks(objects, "list", "resourceslices", group=DRA, namespace="", field_selector=selector)


@pytest.mark.parametrize("verb", ["get", "update", "patch", "delete"])
def test_node_reaches_its_own_slices_only(objects: Objects, verb: str) -> None:
    assert asks(objects, verb, "resourceslices", "own-slice", DRA, namespace="")
    for name in ("other-slice", "cluster-slice", "nope"):
        assert not asks(objects, verb, "resourceslices", name, DRA, namespace="")


@pytest.mark.parametrize("verb", ["get", "create", "update", "patch", "delete"])
def test_node_reaches_its_own_lease_only(objects: Objects, verb: str) -> None:
    assert asks(objects, verb, "leases", "n1", COORDINATION, namespace="kube-node-lease")
    assert not asks(objects, verb, "leases", "n2", COORDINATION, namespace="kube-node-lease")
    assert not asks(objects, verb, "leases", "n1", COORDINATION, namespace="kube-system")
    assert not asks(objects, "list", "leases", "", COORDINATION, namespace="kube-node-lease")


def test_writes_that_admission_looks_at_are_allowed_by_verb(objects: Objects) -> None:
    assert asks(objects, "create", "nodes", "n1", namespace="")
    assert asks(objects, "patch", "nodes", "n1", namespace="", subresource="status")
    assert asks(objects, "patch", "pods", "mine", subresource="status")
    assert asks(objects, "create", "events")
    assert asks(objects, "create", "resourceslices", group=DRA, namespace="")


@pytest.mark.parametrize(
    "user",
    [
        User("system:node:n1", groups=("system:authenticated",)),
        User("jane", groups=("system:nodes", "system:authenticated")),
    ],
)
def test_only_nodes_are_answered_for(objects: Objects, user: User) -> None:
    assert not asks(objects, "get", "pods", "mine", user=user)
    assert not asks(objects, "create", "events", user=user)


def test_node_may_do_nothing_else(objects: Objects) -> None:
    for verb, group, resource in (
        ("list", "", "namespaces"),
        ("create", "", "secrets"),
        ("update", "", "pods"),
        ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
        ("delete", DRA, "deviceclasses"),
    ):
        assert not asks(objects, verb, resource, "x", group)


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_name_without_a_namespace_means_all_namespaces(objects: Objects, verb: str) -> None:
    asked = Attributes(verb, "", "secrets", field_selector="metadata.name=env-secret")
    assert not NodeAuthorizer(objects).authorize(NODE, asked).allowed
    there = Attributes(verb, "", "secrets", namespace="default", field_selector="metadata.name=env-secret")
    assert NodeAuthorizer(objects).authorize(NODE, there).allowed


def test_mirror_pod_entitles_to_nothing(objects: Objects) -> None:
    mirror = pod("reported", node="n1", volumes=[{"name": "v", "secret": {"secretName": "coveted"}}])
    asked = Attributes("get", "", "secrets", namespace="default", name="coveted")
    objects.put(mirror)
    assert NodeAuthorizer(objects).authorize(NODE, asked).allowed
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    objects.put(mirror)
    assert not NodeAuthorizer(objects).authorize(NODE, asked).allowed


@pytest.mark.parametrize("verb", ["get", "update", "patch"])
def test_status_of_others_is_neither_read_nor_written(objects: Objects, verb: str) -> None:
    objects.put(pod("elsewhere", node="n2"))
    authorizer = NodeAuthorizer(objects)

    def may(resource: str, name: str, namespace: str = "", subresource: str = "status") -> bool:
        return authorizer.authorize(NODE, Attributes(verb, "", resource, subresource, namespace, name)).allowed

    assert may("pods", "mine", "default")
    assert not may("pods", "elsewhere", "default")
    assert may("pods", "gone", "default")  # and is then not found
    assert may("nodes", "n1")
    assert not may("nodes", "n2")
    assert not may("nodes", "n2", subresource="")
