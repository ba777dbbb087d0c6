"""The fields of KEP-5729 and KEP-5194 in the API: merge keys, immutability, gates, and what nodes may read."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import Forbidden, Invalid
from dray.api.types.apps import Deployment
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup, Workload
from dray.api.users import AUTHENTICATED, User
from dray.client import InProcess, PatchKind
from tests import objects
from tests.workloads.cluster import GROUPS, NONE, Cluster, without


def entry(name: str, **source: str) -> dict[str, str]:
    return {"name": name, **source}


def deployment_in_group(*claims: dict[str, str]) -> dict[str, Any]:
    member = {"schedulingGroup": {"podGroupName": "g"}, "resourceClaims": list(claims)}
    return objects.deployment("d", 0, namespace="ns", **member)


def template_claims(found: Deployment) -> list[tuple[str, str | None, str | None]]:
    claims = found.spec.template.spec.resourceClaims
    return [(c.name, c.resourceClaimTemplateName, c.podGroupResourceClaim) for c in claims]


def claims_patch(*claims: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"resourceClaims": list(claims)}}}}


async def test_a_strategic_patch_merges_claims_by_name_and_replaces_their_source(idle: Cluster) -> None:
    tree = deployment_in_group(entry("a", resourceClaimTemplateName="t"), entry("b", resourceClaimTemplateName="t"))
    await idle.client.create(Deployment, tree)
    patch = claims_patch({"$retainKeys": ["name", "podGroupResourceClaim"], "name": "a", "podGroupResourceClaim": "x"})
    changed = await idle.client.patch(Deployment, "d", patch, "ns", kind=PatchKind.STRATEGIC)
    assert template_claims(changed) == [("a", None, "x"), ("b", "t", None)]


async def test_server_side_apply_merges_claims_by_name(idle: Cluster) -> None:
    for manager, claim in (("one", "a"), ("two", "b")):
        tree = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            **deployment_in_group(entry(claim, podGroupResourceClaim="x")),
        }
        changed = await idle.client.patch(Deployment, "d", tree, "ns", kind=PatchKind.APPLY, manager=manager)
    assert template_claims(changed) == [("a", None, "x"), ("b", None, "x")]


@pytest.mark.parametrize("kind", [PatchKind.MERGE, PatchKind.STRATEGIC, PatchKind.APPLY])
async def test_the_claims_of_a_group_cannot_be_changed_in_any_way(idle: Cluster, kind: PatchKind) -> None:
    await idle.group(claim="t:t")
    patch: dict[str, Any] = {"spec": {"resourceClaims": [entry("other", resourceClaimName="c")]}}
    options: dict[str, Any] = {}
    if kind is PatchKind.APPLY:
        patch |= {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
        options = {"manager": "m", "force": True}
    with pytest.raises(Invalid, match=r"spec\.resourceClaims"):
        await idle.client.patch(PodGroup, "g", patch, "ns", kind=kind, **options)


async def test_the_claims_of_a_workload_cannot_be_changed(idle: Cluster) -> None:
    template = {
        "name": "t",
        "schedulingPolicy": {"basic": {}},
        "resourceClaims": [entry("a", resourceClaimTemplateName="t")],
    }
    await idle.client.create(
        Workload, {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}}, namespace="ns"
    )
    changed = {**template, "resourceClaims": [entry("a", resourceClaimTemplateName="other")]}
    with pytest.raises(Invalid, match="resourceClaims"):
        await idle.client.patch(Workload, "w", {"spec": {"podGroupTemplates": [changed]}}, "ns")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ({}, "must specify one of"),
        ({"resourceClaimName": "c", "resourceClaimTemplateName": "t"}, "must specify exactly one of"),
    ],
)
async def test_an_entry_of_a_group_has_exactly_one_source(idle: Cluster, source: dict[str, str], problem: str) -> None:
    tree = {
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry("a", **source)]},
    }
    with pytest.raises(Invalid, match=r"spec\.resourceClaims\[0\]") as caught:
        await idle.client.create(PodGroup, tree, namespace="ns")
    assert problem in str(caught.value)


async def test_an_entry_of_a_pod_that_is_in_no_group_cannot_be_the_groups(idle: Cluster) -> None:
    with pytest.raises(Invalid, match="podGroupResourceClaim"):
        await idle.pod("p", x="g:claim")


async def test_new_fields_are_dropped_or_refused_while_the_gates_are_off(idle: Cluster) -> None:
    await idle.serve(NONE)
    reference = {"resource": "configmaps", "name": "w", "uid": "1"}
    assert (await idle.claim(reservedFor=reference)).spec.reservedFor is None
    status = {"allocation": {"reservedForAnyPod": True}}
    claim = await idle.client.patch(ResourceClaim, "c", {"status": status}, "ns", subresource="status")
    assert claim.status.allocation is None or claim.status.allocation.reservedForAnyPod is None
    with pytest.raises(Invalid):
        await idle.pod("p", "g", x="g:claim")


async def test_claims_of_composite_templates_are_dropped_while_the_gate_is_off(idle: Cluster) -> None:
    await idle.serve(without(GROUPS))
    template = {
        "name": "t",
        "schedulingPolicy": {"basic": {}},
        "resourceClaims": [entry("a", resourceClaimTemplateName="t")],
    }
    composite = {"name": "c", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [template]}
    tree = {"metadata": {"name": "w"}, "spec": {"compositePodGroupTemplates": [composite]}}
    made = await idle.client.create(Workload, tree, namespace="ns")
    assert made.spec.compositePodGroupTemplates[0].podGroupTemplates[0].resourceClaims == ()


async def test_a_reference_needs_resource_name_and_uid(idle: Cluster) -> None:
    with pytest.raises(Invalid, match=r"spec\.reservedFor\.uid"):
        await idle.claim(reservedFor={"resource": "jobs", "name": "j"})


async def test_a_node_reads_the_groups_of_its_own_pods_only(idle: Cluster) -> None:
    for name in ("mine", "other"):
        await idle.group(name)
    tree = {
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGroup": {"podGroupName": "mine"},
        },
    }
    await idle.client.create(Pod, tree, namespace="ns")
    node = InProcess(idle.server.api, User("system:node:n", groups=("system:nodes", AUTHENTICATED)))
    assert (await node.get(PodGroup, "mine", "ns")).metadata.name == "mine"
    with pytest.raises(Forbidden):
        await node.get(PodGroup, "other", "ns")
    with pytest.raises(Forbidden):
        await node.list(PodGroup, "ns")


async def test_an_allocated_claim_cannot_be_opened_to_any_pod(cluster: Cluster) -> None:
    await cluster.claim()
    await cluster.pod("p", x="c")
    await cluster.running("p")
    patch = {"status": {"allocation": {"reservedForAnyPod": True}}}
    with pytest.raises(Invalid, match=r"status\.allocation.*field cannot be modified once set"):
        await cluster.client.patch(ResourceClaim, "c", patch, "ns", subresource="status")
    claim = await cluster.read()
    assert claim.status.allocation is not None
    assert claim.status.allocation.reservedForAnyPod is None
