"""Nodes write what is their own; drivers write the slices of their node."""

from typing import Any

import pytest

from dray.api.errors import Forbidden, NotFound
from dray.api.types.authentication import BoundObjectReference, TokenRequest, TokenRequestSpec
from dray.api.types.core import Binding, ObjectReference
from dray.api.types.policy import Eviction
from dray.api.users import ADMIN, NODE_NAME, User, node_user, service_account_user
from dray.apiserver.admission import Chain
from dray.apiserver.admission.node_restriction import NodeRestriction, NodeSlices
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.rbac import Rbac
from tests.apiserver.admission.writing import about, create, delete, update
from tests.apiserver.reading import Objects, account, account_subject, binding, node, pod, role, rule, slice_

NODE = node_user("n1")


@pytest.fixture
def plugin() -> NodeRestriction:
    return NodeRestriction(Objects())


def lease(name: str, namespace: str = "kube-node-lease") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}


async def test_node_writes_its_own_slices_only(plugin: NodeRestriction) -> None:
    own, other, everywhere = slice_("a", "n1"), slice_("b", "n2"), slice_("c")
    await create(plugin, own, user=NODE)
    await update(plugin, own, own, user=NODE)
    await delete(plugin, own, user=NODE)
    for foreign in (other, everywhere):
        with pytest.raises(Forbidden, match="can only create ResourceSlice with the same NodeName"):
            await create(plugin, foreign, user=NODE)
        with pytest.raises(Forbidden, match="can only update"):
            await update(plugin, foreign, own, user=NODE)
        with pytest.raises(Forbidden, match="can only delete"):
            await delete(plugin, foreign, user=NODE)


async def test_others_are_not_confined(plugin: NodeRestriction) -> None:
    for user in (ADMIN, User("system:node:n1"), service_account_user("kube-system", "x")):
        await create(plugin, slice_("b", "n2"), user=user)
        await delete(plugin, pod("p", node="n2"), user=user)


async def test_node_writes_the_status_of_its_own_pods(plugin: NodeRestriction) -> None:
    old, new = pod("p", node="n1"), pod("p", node="n1", status={"phase": "Running"})
    await update(plugin, old, new, user=NODE, subresource="status")
    with pytest.raises(Forbidden, match=r'node "n1" can only update the status of pods'):
        await update(plugin, old, new, user=NODE)
    for elsewhere in ("n2", ""):
        with pytest.raises(
            Forbidden, match=r'node "n1" can only update status for pods with spec.nodeName set to itself'
        ):
            await update(plugin, pod("p", node=elsewhere), pod("p", node=elsewhere), user=NODE, subresource="status")


async def test_node_changes_neither_labels_nor_claims_of_a_pod(plugin: NodeRestriction) -> None:
    old, labelled = pod("p", node="n1"), pod("p", node="n1")
    labelled["metadata"]["labels"] = {"app": "x"}
    with pytest.raises(Forbidden, match='node "n1" cannot update labels through pod status'):
        await update(plugin, old, labelled, user=NODE, subresource="status")
    claimed = pod("p", node="n1", status={"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "stolen"}]})
    with pytest.raises(Forbidden, match='node "n1" cannot update resource claim statuses'):
        await update(plugin, old, claimed, user=NODE, subresource="status")


async def test_node_neither_sets_nor_changes_nor_clears_the_extended_resource_claim_of_a_pod(
    plugin: NodeRestriction,
) -> None:
    def claimed(name: str, phase: str = "Pending") -> dict[str, Any]:
        mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
        status = {"resourceClaimName": name, "requestMappings": [mapping]}
        return pod("p", node="n1", status={"phase": phase, "extendedResourceClaimStatus": status})

    without, own, stolen = pod("p", node="n1"), claimed("own"), claimed("stolen")
    await update(plugin, own, claimed("own", "Running"), user=NODE, subresource="status")
    for old, new in ((without, own), (own, stolen), (own, without)):
        with pytest.raises(Forbidden, match='node "n1" cannot update extended resource claim statuses'):
            await update(plugin, old, new, user=NODE, subresource="status")


async def test_node_deletes_its_own_pods_only(plugin: NodeRestriction) -> None:
    await delete(plugin, pod("p", node="n1"), user=NODE)
    with pytest.raises(Forbidden, match=r'node "n1" can only delete pods with spec.nodeName set to itself'):
        await delete(plugin, pod("p", node="n2"), user=NODE)


async def test_node_evicts_its_own_pods_only() -> None:
    chain = Chain([NodeRestriction(Objects(pod("own", node="n1"), pod("other", node="n2")))])

    async def evict(name: str) -> None:
        asked = about("CREATE", pod(name), user=NODE, subresource="eviction")
        asked.object = Eviction()
        await chain.validate(asked)

    await evict("own")
    with pytest.raises(Forbidden, match=r"node n1 can only evict pods with spec.nodeName set to itself"):
        await evict("other")
    with pytest.raises(NotFound, match='pods "missing" not found'):
        await evict("missing")


STORAGE_WITH_SECRETS: list[dict[str, Any]] = [
    {"azureFile": {"secretName": "db", "shareName": "s"}},
    {"cephfs": {"monitors": ["m"], "secretRef": {"name": "db"}}},
    {"cinder": {"volumeID": "v", "secretRef": {"name": "db"}}},
    {"csi": {"driver": "d", "nodePublishSecretRef": {"name": "db"}}},
    {"flexVolume": {"driver": "d/d", "secretRef": {"name": "db"}}},
    {"iscsi": {"targetPortal": "p", "iqn": "i", "lun": 0, "secretRef": {"name": "db"}}},
    {"rbd": {"monitors": ["m"], "image": "i", "secretRef": {"name": "db"}}},
    {"scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "db"}}},
    {"storageos": {"volumeName": "v", "secretRef": {"name": "db"}}},
]


def mirror(where: str = "n1", owner: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod that a node reports, owned by the node whose uid is `u1`."""
    tree = pod("p", node=where, **spec)
    itself = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": True}
    tree["metadata"] |= {"annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner or itself]}
    return tree


async def test_node_creates_mirror_pods_only() -> None:
    plugin = NodeRestriction(Objects(node("n1", uid="u1")))
    with pytest.raises(Forbidden, match="can only create mirror pods"):
        await create(plugin, pod("p", node="n1"), user=NODE)
    await create(plugin, mirror(), user=NODE)
    with pytest.raises(Forbidden, match=r"can only create pods with spec.nodeName set to itself"):
        await create(plugin, mirror("n2"), user=NODE)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"name": "n2"}, "an owner reference set to itself"),
        ({"kind": "Pod"}, "an owner reference set to itself"),
        ({"controller": None}, "a controller owner reference set to itself"),
        ({"blockOwnerDeletion": True}, "must not set blockOwnerDeletion"),
        ({"uid": "u2"}, "node n1 UID mismatch: expected u1 got u2"),
    ],
)
async def test_mirror_pod_belongs_to_its_node(change: dict[str, Any], refused: str) -> None:
    plugin = NodeRestriction(Objects(node("n1", uid="u1")))
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1", "controller": True}
    with pytest.raises(Forbidden, match=refused):
        await create(plugin, mirror(owner=owner | change), user=NODE)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"serviceAccountName": "robot"}, "serviceaccounts"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "db"}}]}, "secrets"),
        ({"imagePullSecrets": [{"name": "db"}]}, "secrets"),
        *(({"volumes": [{"name": "v", **storage}]}, "secrets") for storage in STORAGE_WITH_SECRETS),
        ({"volumes": [{"name": "v", "configMap": {"name": "m"}}]}, "configmaps"),
        ({"resourceClaims": [{"name": "a", "resourceClaimName": "stolen"}]}, "resourceclaims"),
        ({"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]}, "resourceclaimtemplates"),
        ({"schedulingGroup": {"podGroupName": "g"}}, "podgroups"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "persistentvolumeclaims"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "serviceaccounts",
        ),
        ({"status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "stolen"}]}}, "resourceclaims"),
    ],
)
async def test_mirror_pod_names_no_object(spec: dict[str, Any], named: str) -> None:
    plugin = NodeRestriction(Objects(node("n1", uid="u1")))
    with pytest.raises(Forbidden, match=f'node "n1" can not create pods that reference {named}'):
        await create(plugin, mirror(**spec), user=NODE)


async def test_node_binds_nothing(plugin: NodeRestriction) -> None:
    asked = about("CREATE", pod("p", node="n1"), user=NODE, subresource="binding")
    asked.object = Binding(target=ObjectReference(name="n1"))
    with pytest.raises(Forbidden, match="cannot bind"):
        await Chain([plugin]).validate(asked)


async def test_node_writes_its_own_node_only(plugin: NodeRestriction) -> None:
    await create(plugin, node("n1"), user=NODE)
    await update(plugin, node("n1"), node("n1", labels={"zone": "a"}), user=NODE)
    with pytest.raises(Forbidden, match='node "n1" is not allowed to modify node "n2"'):
        await update(plugin, node("n2"), node("n2"), user=NODE, subresource="status")
    with pytest.raises(Forbidden, match="not allowed to delete"):
        await delete(plugin, node("n1"), user=NODE)


async def test_node_changes_neither_protected_labels_nor_taints(plugin: NodeRestriction) -> None:
    label = {"node-restriction.kubernetes.io/team": "a"}
    with pytest.raises(Forbidden, match=r"set the following labels on Create: node-restriction.kubernetes.io/team"):
        await create(plugin, node("n1", labels=label), user=NODE)
    with pytest.raises(Forbidden, match="not allowed to modify labels"):
        await update(plugin, node("n1", labels=label), node("n1"), user=NODE)
    await update(plugin, node("n1", labels=label), node("n1", labels=label), user=NODE)
    tainted = {**node("n1"), "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    with pytest.raises(Forbidden, match="not allowed to modify taints"):
        await update(plugin, tainted, node("n1"), user=NODE)


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("node-role.kubernetes.io/control-plane", False),
        ("team.node-restriction.kubernetes.io/a", False),
        ("kubernetes.io/cluster-service", False),
        ("example.k8s.io/x", False),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("node.kubernetes.io/instance-type", True),
        ("gpu.node.kubernetes.io/x", True),
        ("example.com/x", True),
        ("zone", True),
        ("evilkubernetes.io/x", True),
    ],
)
async def test_node_sets_no_labels_that_mean_something_to_the_cluster(
    plugin: NodeRestriction, label: str, allowed: bool
) -> None:
    attempts = (
        create(plugin, node("n1", labels={label: "a"}), user=NODE),
        update(plugin, node("n1"), node("n1", labels={label: "a"}), user=NODE),
        update(plugin, node("n1", labels={label: "a"}), node("n1", labels={label: "b"}), user=NODE),
        update(plugin, node("n1", labels={label: "a"}), node("n1"), user=NODE, subresource="status"),
    )
    for attempt in attempts:
        if allowed:
            await attempt
        else:
            with pytest.raises(Forbidden, match=f"is not allowed to .*labels.*: {label}"):
                await attempt


async def test_node_does_not_let_itself_be_collected(plugin: NodeRestriction) -> None:
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "1"}
    orphan = node("n1", ownerReferences=[gone])
    for attempt in (
        create(plugin, orphan, user=NODE),
        update(plugin, node("n1"), orphan, user=NODE),
        update(plugin, node("n1"), orphan, user=NODE, subresource="status"),
        update(plugin, orphan, node("n1"), user=NODE),
    ):
        with pytest.raises(Forbidden, match='node "n1" is not allowed to modify ownerReferences'):
            await attempt
    await update(plugin, orphan, orphan, user=NODE)


async def test_node_writes_its_own_lease_only(plugin: NodeRestriction) -> None:
    await create(plugin, lease("n1"), user=NODE)
    with pytest.raises(Forbidden, match="same name as the requesting node"):
        await create(plugin, lease("n2"), user=NODE)
    with pytest.raises(Forbidden, match='leases in the "kube-node-lease" system namespace'):
        await create(plugin, lease("n1", "kube-system"), user=NODE)


@pytest.mark.parametrize(
    ("bound", "refused"),
    [
        ({}, "not bound to a pod"),
        ({"kind": "Secret", "name": "p"}, "not bound to a pod"),
        ({"name": "p", "uid": ""}, "without a uid"),
        ({"name": "p", "uid": "wrong"}, "does not match the UID"),
        ({"name": "gone", "uid": "1"}, "does not match the UID"),
        ({"name": "p", "uid": "1"}, ""),
        ({"name": "other", "uid": "2"}, "scheduled on a different node"),
    ],
)
async def test_node_gets_tokens_for_its_own_pods_only(bound: dict[str, str], refused: str) -> None:
    mine, other = pod("p", node="n1"), pod("other", node="n2")
    mine["spec"]["volumes"] = [token_volume("")]
    mine["metadata"]["uid"], other["metadata"]["uid"] = "1", "2"
    asked = about("CREATE", account("robot"), user=NODE, subresource="token")
    reference = BoundObjectReference(**{"apiVersion": "v1", "kind": "Pod", **bound}) if bound else None
    asked.object = TokenRequest(spec=TokenRequestSpec(boundObjectRef=reference))
    plugin = NodeRestriction(Objects(mine, other))
    if not refused:
        await Chain([plugin]).validate(asked)
        return
    with pytest.raises(Forbidden, match=refused):
        await Chain([plugin]).validate(asked)


def token_volume(audience: str) -> dict[str, Any]:
    token = {"path": "t", **({"audience": audience} if audience else {})}
    return {"name": f"v{audience}", "projected": {"sources": [{"serviceAccountToken": token}]}}


@pytest.mark.parametrize(
    ("volumes", "asked", "refused"),
    [
        (["", "vault"], [], None),
        (["", "vault"], ["vault"], None),
        (["", "vault"], ["bank"], "bank"),
        (["", "vault"], ["vault", "bank"], "bank"),
        (["vault"], [], ""),
        ([], [], ""),
    ],
)
async def test_node_gets_tokens_for_audiences_of_its_pods_volumes_only(
    volumes: list[str], asked: list[str], refused: str | None
) -> None:
    mine = pod("p", node="n1")
    mine["metadata"]["uid"] = "1"
    mine["spec"]["volumes"] = [token_volume(audience) for audience in volumes]
    request = about("CREATE", account("robot"), user=NODE, subresource="token")
    reference = BoundObjectReference(apiVersion="v1", kind="Pod", name="p", uid="1")
    request.object = TokenRequest(spec=TokenRequestSpec(boundObjectRef=reference, audiences=tuple(asked)))
    chain = Chain([NodeRestriction(Objects(mine))])
    if refused is None:
        await chain.validate(request)
        return
    with pytest.raises(Forbidden, match=f'audience "{refused}" not found in pod spec volumes'):
        await chain.validate(request)


# Drivers


def driver(*nodes: str) -> User:
    return service_account_user("drivers", "gpu", extra={NODE_NAME: nodes} if nodes else {})


def confined(*trees: Any) -> NodeSlices:
    return NodeSlices(Union(Rbac(Objects(*trees))))


async def test_driver_writes_the_slices_of_its_node() -> None:
    plugin, own = confined(), slice_("a", "n1")
    await create(plugin, own, user=driver("n1"))
    await update(plugin, own, own, user=driver("n1"))
    await delete(plugin, own, user=driver("n1"))


@pytest.mark.parametrize(
    ("tree", "what"),
    [(slice_("b", "n2"), "resourceslices on node 'n2'"), (slice_("c"), "cluster resourceslices")],
)
async def test_driver_writes_no_other_slices(tree: dict[str, Any], what: str) -> None:
    plugin, text = confined(), f"this user running on node 'n1' may not modify {what}"
    for attempt in (
        create(plugin, tree, user=driver("n1")),
        update(plugin, tree, tree, user=driver("n1")),
        update(plugin, tree, slice_("b", "n1"), user=driver("n1")),
        delete(plugin, tree, user=driver("n1")),
    ):
        with pytest.raises(Forbidden, match=text):
            await attempt


async def test_two_node_names_are_none() -> None:
    with pytest.raises(Forbidden):
        await create(confined(), slice_("a", "n1"), user=driver("n1", "n2"))


async def test_users_without_node_and_people_are_not_confined() -> None:
    await create(confined(), slice_("b", "n2"), user=driver())
    await create(confined(), slice_("b", "n2"), user=User("jane", extra={NODE_NAME: ("n1",)}))


async def test_driver_can_be_exempted() -> None:
    plugin = confined(
        role("any", rule("publish-for-any-node", "resourceslices", "resource.k8s.io")),
        binding("any", "any", account_subject("gpu", "drivers")),
    )
    await create(plugin, slice_("c"), user=driver("n1"))


async def test_a_wildcard_does_not_lift_the_confinement() -> None:
    """Only the verb by its name does, and whoever holds everything by wildcard cannot hand it on."""
    everything = (role("root", rule("*", "*", "*")), binding("root", "root", account_subject("gpu", "drivers")))
    with pytest.raises(Forbidden, match="may not modify cluster resourceslices"):
        await create(confined(*everything), slice_("c"), user=driver("n1"))
