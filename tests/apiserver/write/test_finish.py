"""A typed status comes to what its tree comes to. The server takes trees over, so each is a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from dray.api.errors import ApiError
from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Pod, PodStatus
from dray.api.types.resource import ResourceClaim, ResourceClaimStatus
from dray.api.users import ADMIN
from dray.api.wire import Tree
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import InProcess, PatchKind
from tests import objects

DEVICE = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
ALLOCATION = {"devices": {"results": [DEVICE]}}
TOLERATION = {"key": "example.com/broken", "operator": "Exists"}
POD = {"resource": "pods", "name": "p", "uid": "1"}
JOB = {"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "2"}
REPORTED = {key: DEVICE[key] for key in ("driver", "pool", "device")}
LOCAL = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
BEFORE: dict[str, Tree] = {
    "pending": {},
    "allocated": {"allocation": ALLOCATION, "reservedFor": [POD]},
    "local": {"allocation": ALLOCATION | {"nodeSelector": {"nodeSelectorTerms": [LOCAL]}}},
    "reported": {"allocation": ALLOCATION, "reservedFor": [POD], "devices": [REPORTED]},
}


def allocation(**fields: Any) -> Tree:
    """An allocation whose only device has further fields."""
    return {"devices": {"results": [DEVICE | fields]}}


@pytest.fixture(params=["", "DRAAdminAccess", "DRADeviceTaints", "DynamicResourceAllocation"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[InProcess]:
    """A server, as it is and without a gate that guards fields of a status."""
    choice = {request.param: False} if request.param else {"DRAReservedForWorkloads": True}
    running = await Running.open(ServerSettings(gates=FeatureGates(choice)))
    yield InProcess(running.api, ADMIN)
    await running.close()


async def created_claim(client: InProcess, name: str, before: Tree) -> ResourceClaim:
    made = await client.create(ResourceClaim, objects.claim(name), namespace="default")
    return await patched(client, made, deepcopy(before)) if before else made


async def created_pod(client: InProcess, name: str, before: Tree) -> Pod:
    entries = [{"name": entry, "resourceClaimTemplateName": "t"} for entry in ("a", "b")]
    made = await client.create(Pod, objects.pod(name, resourceClaims=entries), namespace="default")
    return await patched(client, made, deepcopy(before)) if before else made


async def patched(client: InProcess, obj: Any, status: Tree) -> Any:
    """Write fields of a status as one who sends a tree does."""
    patch = {"metadata": {"uid": obj.metadata.uid}, "status": status}
    return await client.patch(type(obj), obj.metadata.name, patch, "default", subresource="status")


async def came_to(obj: Any, writing: Awaitable[Any]) -> Any:
    """The status that a write leaves, with all that stays as it is, or the error that refuses it."""
    try:
        written = await writing
    except ApiError as error:
        return type(error), error.message.replace(obj.metadata.name, "it")
    assert (written.spec, written.metadata.uid) == (obj.spec, obj.metadata.uid)
    assert int(written.metadata.resourceVersion) >= int(obj.metadata.resourceVersion)
    return msgspec.to_builtins(written.status)


def replaced(client: InProcess, obj: Any, status: Tree) -> Awaitable[Any]:
    """Write a whole status as one who sends a tree does."""
    steps = [{"op": "add", "path": "/status", "value": deepcopy(status)}]
    return client.patch(type(obj), obj.metadata.name, steps, "default", kind=PatchKind.JSON, subresource="status")


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize(
    "status",
    [
        {"allocation": ALLOCATION, "reservedFor": [POD]},
        {"reservedFor": [JOB]},
        {"reservedFor": [POD, POD]},
        {"allocation": allocation(device="y")},
        {"allocation": allocation(device="y"), "devices": [REPORTED]},
        {"allocation": allocation(adminAccess=True)},
        {"allocation": allocation(tolerations=[TOLERATION])},
        {"allocation": allocation(skipNodeOperations=["Prepare"])},
        {"allocation": ALLOCATION | {"reservedForAnyPod": True}, "reservedFor": [JOB]},
        {"allocation": allocation(request="unknown")},
        {"devices": [REPORTED]},
        {},
    ],
    ids=str,
)
async def test_the_status_of_a_claim(client: InProcess, before: Tree, status: Tree) -> None:
    if not await serves_claims(client):
        pytest.skip("there are no claims without the gate")
    made = await created_claim(client, "tree", before)
    by_tree = await came_to(made, replaced(client, made, status))
    freed = dict.fromkeys(("allocation", "reservedFor", "devices"))
    await patched(client, await client.get(ResourceClaim, "tree", "default"), freed)
    made = await created_claim(client, "typed", before)
    typed = msgspec.convert(status, ResourceClaimStatus)
    assert await came_to(made, client.patch_status(made, typed)) == by_tree


async def serves_claims(client: InProcess) -> bool:
    try:
        await client.list(ResourceClaim, "default")
    except ApiError:
        return False
    return True


@pytest.mark.parametrize(
    "status",
    [
        {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}]},
        {"resourceClaimStatuses": [{"name": "unknown"}]},
        {"phase": "Running", "podIP": "10.0.0.1"},
        {"qosClass": "Guaranteed"},
        {},
    ],
    ids=str,
)
async def test_the_status_of_a_pod(client: InProcess, status: Tree) -> None:
    before = {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "first"}], "message": "kept"}
    made = await created_pod(client, "tree", before)
    by_tree = await came_to(made, replaced(client, made, status))
    made = await created_pod(client, "typed", before)
    assert await came_to(made, client.patch_status(made, msgspec.convert(status, PodStatus))) == by_tree


async def test_amounts_in_a_status_get_their_canonical_form(client: InProcess) -> None:
    node = await client.create(Node, {"metadata": {"name": "n"}})
    status = msgspec.structs.replace(node.status, capacity={"memory": "1024Mi"})
    assert (await client.patch_status(node, status)).status.capacity == {"memory": "1Gi"}


async def test_what_somebody_applied_is_still_theirs(client: InProcess) -> None:
    applied = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}}}
    node = await client.patch(Node, "n", applied, kind=PatchKind.APPLY, manager="somebody")
    written = await client.patch_status(node, msgspec.structs.replace(node.status, phase="Running"))
    managed = {entry.manager: entry.subresource for entry in written.metadata.managedFields}
    assert managed == {"somebody": "", "dray": "status"}
