"""Typed objects of the cluster's own parts are created as their trees would be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from dray.api.errors import ApiError
from dray.api.gates import FeatureGates
from dray.api.resources import BY_TYPE
from dray.api.types.core import Event, Namespace, ObjectReference, ResourceQuota
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.api.types.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimStatus
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.request import Request, RequestOptions
from dray.client import InProcess
from dray.client.interface import Object

EXACTLY = {"deviceClassName": "gpu", "tolerations": [{"key": "example.com/broken", "operator": "Exists"}]}
SPEC = msgspec.convert({"devices": {"requests": [{"name": "r", "exactly": EXACTLY}]}}, ResourceClaimSpec)


@pytest.fixture(params=["", "DRADeviceTaints"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[InProcess]:
    """A server with everything that guards one; without a gate, what it guards is dropped."""
    gates = FeatureGates({request.param: False} if request.param else {})
    running = await Running.open(ServerSettings(gates=gates))
    yield InProcess(running.api, ADMIN)
    await running.close()


def typed_claim(name: str, spec: ResourceClaimSpec = SPEC, **metadata: Any) -> ResourceClaim:
    return ResourceClaim(metadata=ObjectMeta(name=name, namespace="default", **metadata), spec=spec)


def event(name: str, about: str = "default", **fields: Any) -> Event:
    reference = ObjectReference(kind="Pod", name="p", namespace=about)
    return Event(metadata=ObjectMeta(name=name, namespace="default"), involvedObject=reference, **fields)


async def came_to(client: InProcess, type_: Any, obj: Any, namespace: str) -> Any:
    """What a creation leaves in the store, without what differs each time, or the error that refuses it."""
    try:
        made: Object = await client.create(type_, obj, namespace=namespace)
    except ApiError as error:
        return type(error), error.message, error.details
    stored: Object = await client.get(type(made), made.metadata.name, made.metadata.namespace)
    assert stored == made
    assert (len(stored.metadata.uid), stored.metadata.creationTimestamp is not None) == (36, True)
    tree = msgspec.to_builtins(stored)
    for field in ("uid", "creationTimestamp", "resourceVersion"):
        del tree["metadata"][field]
    return tree


async def alike(client: InProcess, obj: Any, namespace: str = "") -> Any:
    """Create an object as a tree and typed, with nothing left of the first, and see that it comes to the same."""
    by_tree = await came_to(client, type(obj), msgspec.to_builtins(obj), namespace)
    if isinstance(by_tree, dict):
        await client.delete(type(obj), obj.metadata.name, obj.metadata.namespace)
    assert await came_to(client, type(obj), obj, namespace) == by_tree
    return by_tree


async def test_claims_of_one_spec_come_to_what_their_trees_come_to(client: InProcess) -> None:
    for number in range(3):  # the first teaches the server the spec
        tree = await alike(client, typed_claim(f"c{number}", labels={"a": "b"}, annotations={"x": "y"}))
        assert tree["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1  # a default
    await alike(client, typed_claim("other", msgspec.structs.replace(SPEC)))


async def test_claims_like_one_before_share_its_spec(client: InProcess) -> None:
    one, two = [
        await client.create(ResourceClaim, typed_claim(name, msgspec.structs.replace(SPEC))) for name in ("one", "two")
    ]
    assert one.spec is two.spec


async def test_a_status_is_not_for_the_creator(client: InProcess) -> None:
    status = msgspec.convert({"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}, ResourceClaimStatus)
    spec = ResourceClaimSpec()
    for name in ("first", "second"):
        made = await client.create(ResourceClaim, msgspec.structs.replace(typed_claim(name, spec), status=status))
        assert made.status == ResourceClaimStatus()


async def test_events_come_to_what_their_trees_come_to(client: InProcess) -> None:
    await alike(client, event("e", reason="Why", message="it did", count=2, firstTimestamp="2026-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("obj", "namespace"),
    [
        (typed_claim("Not a name"), ""),
        (typed_claim("c", labels={"/": ""}), ""),
        (typed_claim("c"), "other"),
        (typed_claim("c", resourceVersion="1"), ""),
        (event("e", about="other"), ""),
        (event("e"), "other"),
        (event(""), ""),
    ],
)
async def test_what_is_wrong_is_refused_in_the_same_words(client: InProcess, obj: Any, namespace: str) -> None:
    await client.create(ResourceClaim, typed_claim("known"))
    assert not isinstance(await alike(client, obj, namespace), dict)


async def test_what_exists_is_not_created_again(client: InProcess) -> None:
    for obj in (typed_claim("c"), event("e")):
        await client.create(type(obj), obj)
        for again in (obj, msgspec.to_builtins(obj)):
            with pytest.raises(ApiError, match="already exists") as caught:
                await client.create(type(obj), again)
            assert caught.value.details["kind"] == BY_TYPE[type(obj)].plural


async def test_a_generated_name_is_given(client: InProcess) -> None:
    for _ in range(2):
        made = await client.create(ResourceClaim, typed_claim("", generateName="some-"))
        assert made.metadata.name.startswith("some-")


async def test_namespaces_and_quotas_hold(client: InProcess) -> None:
    await client.create(ResourceClaim, typed_claim("first"))
    hard = {"count/resourceclaims.resource.k8s.io": "2"}
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}}
    await client.create(ResourceQuota, quota)
    counted = {"status": {"hard": hard, "used": dict.fromkeys(hard, "1")}}
    await client.patch(ResourceQuota, "q", counted, "default", subresource="status")
    await client.create(ResourceClaim, typed_claim("second"))
    refused = await alike(client, typed_claim("third"))
    assert "exceeded quota" in refused[1]
    await client.create(Namespace, {"metadata": {"name": "brief", "finalizers": ["example.com/stay"]}})
    await client.delete(Namespace, "brief")
    for obj in (typed_claim("c"), event("e")):
        there = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, namespace="brief"))
        assert "being terminated" in (await alike(client, there))[1]
        nowhere = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, namespace="none"))
        assert 'namespaces "none" not found' in (await alike(client, nowhere))[1]


async def test_a_dry_run_leaves_nothing(client: InProcess) -> None:
    for _ in range(2):  # the second finds what the first came to
        for obj in (typed_claim("c"), event("e")):
            request = Request(
                user=ADMIN,
                verb="create",
                resource=BY_TYPE[type(obj)],
                namespace="default",
                body=obj,
                options=RequestOptions(dry_run=True),
            )
            answer: Any = await client._server.handle(request)
            assert answer.object.metadata.uid
            assert (await client.list(type(obj), "default")).items == ()
    await client.create(ResourceClaim, typed_claim("c"))


async def test_claims_like_one_before_have_their_own_owners(client: InProcess) -> None:
    for number in range(3):
        owner = OwnerReference(apiVersion="v1", kind="Pod", name=f"p{number}", uid=f"u{number}", controller=True)
        made = await client.create(ResourceClaim, typed_claim(f"c{number}", ownerReferences=(owner,)))
        assert made.metadata.ownerReferences == (owner,)
    nobody = OwnerReference(apiVersion="v1", kind="Pod", name="p")
    with pytest.raises(ApiError, match=r"ownerReferences\[0\]\.uid"):
        await client.create(ResourceClaim, typed_claim("c3", ownerReferences=(nobody,)))
    assert (await client.create(ResourceClaim, typed_claim("c4"))).metadata.ownerReferences == ()
