"""A typed status in a patch comes to what its tree comes to. The server takes trees over, so each is a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from dray.api.errors import ApiError
from dray.api.gates import FeatureGates
from dray.api.types.core import Pod, PodStatus
from dray.api.types.resource import ResourceClaim, ResourceClaimStatus
from dray.apiserver.assembly import Running, Settings
from dray.apiserver.user import ADMIN
from dray.client import InProcess, PatchKind

Tree = dict[str, Any]
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
    running = await Running.open(Settings(gates=FeatureGates(choice)))
    yield InProcess(running.api, ADMIN)
    await running.close()


async def claim(client: InProcess, name: str, before: Tree) -> ResourceClaim:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    made = await client.create(ResourceClaim, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    return await patched(client, made, deepcopy(before)) if before else made


async def pod(client: InProcess, name: str, before: Tree) -> Pod:
    entries = [{"name": entry, "resourceClaimTemplateName": "t"} for entry in ("a", "b")]
    spec = {"containers": [{"name": "c", "image": "pause"}], "resourceClaims": entries}
    made = await client.create(Pod, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    return await patched(client, made, deepcopy(before)) if before else made


async def patched(client: InProcess, obj: Any, status: Any, kind: PatchKind = PatchKind.MERGE) -> Any:
    patch = {"metadata": {"uid": obj.metadata.uid}, "status": status}
    return await client.patch(type(obj), obj.metadata.name, patch, "default", kind=kind, subresource="status")


async def came_to(client: InProcess, obj: Any, status: Any, **options: Any) -> Any:
    """The status that a patch leaves, with all that stays as it is, or the error that refuses it."""
    try:
        written = await patched(client, obj, status, **options)
    except ApiError as error:
        return type(error), error.message.replace(obj.metadata.name, "it")
    assert written == await client.get(type(obj), obj.metadata.name, "default")
    assert (written.spec, written.metadata.uid) == (obj.spec, obj.metadata.uid)
    assert int(written.metadata.resourceVersion) >= int(obj.metadata.resourceVersion)
    return msgspec.to_builtins(written.status)


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize(
    "status",
    [
        {"allocation": ALLOCATION, "reservedFor": [POD]},
        {"reservedFor": [JOB]},
        {"reservedFor": [POD, POD]},
        {"allocation": allocation(device="y")},
        {"allocation": allocation(adminAccess=True)},
        {"allocation": allocation(tolerations=[TOLERATION])},
        {"allocation": allocation(skipNodeOperations=["Prepare"])},
        {"allocation": ALLOCATION | {"reservedForAnyPod": True}, "reservedFor": [JOB]},
        {"allocation": allocation(request="unknown")},
        {"devices": [REPORTED]},
    ],
    ids=str,
)
async def test_the_status_of_a_claim(client: InProcess, before: Tree, status: Tree) -> None:
    if not await serves_claims(client):
        pytest.skip("there are no claims without the gate")
    by_tree = await came_to(client, await claim(client, "tree", before), deepcopy(status))
    if not isinstance(by_tree, tuple):
        freed = {"allocation": None, "reservedFor": None}
        await patched(client, await client.get(ResourceClaim, "tree", "default"), freed)
    typed = msgspec.convert(status, ResourceClaimStatus)
    assert await came_to(client, await claim(client, "typed", before), typed) == by_tree


async def serves_claims(client: InProcess) -> bool:
    try:
        await client.list(ResourceClaim, "default")
    except ApiError:
        return False
    return True


@pytest.mark.parametrize("kind", [PatchKind.MERGE, PatchKind.STRATEGIC])
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
async def test_the_status_of_a_pod(client: InProcess, status: Tree, kind: PatchKind) -> None:
    before = {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "first"}], "message": "kept"}
    by_tree = await came_to(client, await pod(client, "tree", before), deepcopy(status), kind=kind)
    typed = msgspec.convert(status, PodStatus)
    assert await came_to(client, await pod(client, "typed", before), typed, kind=kind) == by_tree


async def test_what_a_typed_status_leaves_out_is_left_alone(client: InProcess) -> None:
    made = await pod(client, "p", {"message": "kept"})
    written = await patched(client, made, PodStatus(reason="Said"))
    assert (written.status.message, written.status.reason, written.status.phase) == ("kept", "Said", "Pending")


async def test_a_typed_status_is_written_on_the_same_conditions(client: InProcess) -> None:
    made = await pod(client, "p", {})
    for conditions, code in (({"uid": "other"}, 422), ({"resourceVersion": "1"}, 409)):
        patch = {"metadata": conditions, "status": PodStatus(reason="Said")}
        with pytest.raises(ApiError) as caught:
            await client.patch(Pod, "p", patch, "default", subresource="status")
        assert caught.value.code == code
    assert await client.get(Pod, "p", "default") == made
