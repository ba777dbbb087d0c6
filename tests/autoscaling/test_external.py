"""Cluster Autoscaler's external gRPC protocol over real sockets: we drive a provider, and somebody drives ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from dray.api.protobuf import decode_message
from dray.apiserver.security.certificates import Keys
from dray.autoscaling.external import ExternalProvider, credentials
from dray.autoscaling.external_server import ExternalService, start
from dray.autoscaling.provider import GroupStatus, Instance, InstanceState, ProviderError, ProviderNodeName
from dray.rpc import externalgrpc_pb2 as wire
from dray.rpc.services import add_service, stub
from tests.autoscaling.test_planner import group, groups

GROUPS = groups(group("a", 2, 3.6, min=1, labels={"kind": "fast"}), group("b", 1))


class Remembering:
    """A provider that does at once what it is asked for."""

    def __init__(self) -> None:
        ids = {"a": ["x://a-0", "x://a-1"], "b": []}
        self.instances = {name: [Instance(one) for one in found] for name, found in ids.items()}
        self.instances["a"].append(Instance("x://a-2", InstanceState.CREATING, "no power"))

    async def groups(self) -> list[GroupStatus]:
        return [GroupStatus(name, 1, 5, len(found), tuple(found)) for name, found in self.instances.items()]

    async def increase(self, group: str, count: int) -> None:
        if len(self.instances[group]) + count > 5:
            raise ProviderError(f"group {group} is full")
        self.instances[group] += [Instance(f"x://{group}-new-{n}", InstanceState.CREATING) for n in range(count)]

    async def delete(self, group: str, nodes: Sequence[ProviderNodeName]) -> None:
        gone = {node.provider_id for node in nodes}
        self.instances[group] = [one for one in self.instances[group] if one.id not in gone]


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Remembering, str]]:
    provider = Remembering()
    server, port = await start(provider, GROUPS, "127.0.0.1:0")
    try:
        yield provider, f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def asked() -> AsyncIterator[tuple[Remembering, Any]]:
    async with served() as (provider, address), grpc.aio.insecure_channel(address) as channel:
        yield provider, stub(channel, wire)


async def test_what_one_side_says_the_other_side_hears() -> None:
    async with served() as (provider, address), ExternalProvider(address) as client:
        assert await client.groups() == [
            GroupStatus(
                "a",
                1,
                5,
                3,
                (
                    *(Instance(f"x://a-{n}") for n in range(2)),
                    Instance("x://a-2", InstanceState.CREATING, "failed: no power"),
                ),
            ),
            GroupStatus("b", 1, 5, 0),
        ]
        await client.increase("b", 2)
        await client.delete("a", [ProviderNodeName("a-1", "x://a-1")])
        assert {name: len(found) for name, found in provider.instances.items()} == {"a": 2, "b": 2}


async def test_a_refusal_is_told_with_its_reason() -> None:
    async with served() as (_, address), ExternalProvider(address) as client:
        with pytest.raises(ProviderError, match="group b is full"):
            await client.increase("b", 9)


async def test_a_provider_that_is_not_there_is_told() -> None:
    async with served() as (_, address):
        pass
    async with ExternalProvider(address, timeout=5) as client:
        with pytest.raises(ProviderError, match=address):
            await client.groups()


async def test_a_node_is_known_by_its_instance_and_others_are_not_managed() -> None:
    async with asked() as (_, stub):
        ours = wire.NodeGroupForNodeRequest(node=wire.ExternalGrpcNode(providerID="x://a-1", name="a-1"))
        other = wire.NodeGroupForNodeRequest(node=wire.ExternalGrpcNode(providerID="y://z", name="z"))
        assert (await stub.NodeGroupForNode(ours)).nodeGroup.id == "a"
        assert (await stub.NodeGroupForNode(other)).nodeGroup.id == ""


async def test_a_template_is_a_node_in_protobuf_without_an_envelope() -> None:
    async with asked() as (_, stub):
        found = await stub.NodeGroupTemplateNodeInfo(wire.NodeGroupTemplateNodeInfoRequest(id="a"))
        node = decode_message("io.k8s.api.core.v1.Node", found.nodeBytes)
        assert node["metadata"]["labels"]["kind"] == "fast"
        assert node["status"]["allocatable"]["cpu"] == "8"
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.NodeGroupTemplateNodeInfo(wire.NodeGroupTemplateNodeInfoRequest(id="c"))
        assert raised.value.code() is grpc.StatusCode.NOT_FOUND


async def test_prices_are_those_of_the_group_for_the_time_that_is_asked() -> None:
    async with asked() as (_, stub):
        request = wire.PricingNodePriceRequest(node=wire.ExternalGrpcNode(providerID="x://a-0"))
        request.endTimestamp.FromSeconds(request.startTimestamp.ToSeconds() + 1800)
        assert (await stub.PricingNodePrice(request)).price == pytest.approx(1.8)


async def test_orders_that_have_not_come_are_cancelled() -> None:
    async with asked() as (provider, stub):
        await stub.NodeGroupDecreaseTargetSize(wire.NodeGroupDecreaseTargetSizeRequest(id="a", delta=-1))
        assert [one.id for one in provider.instances["a"]] == ["x://a-0", "x://a-1"]
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.NodeGroupDecreaseTargetSize(wire.NodeGroupDecreaseTargetSizeRequest(id="a", delta=-1))
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_what_is_left_out_is_answered_as_the_protocol_has_it() -> None:
    async with asked() as (_, stub):
        assert (await stub.GPULabel(wire.GPULabelRequest())).label == ""
        assert not (await stub.GetAvailableGPUTypes(wire.GetAvailableGPUTypesRequest())).gpuTypes
        await stub.Cleanup(wire.CleanupRequest())
        for call, request in (
            (stub.PricingPodPrice, wire.PricingPodPriceRequest()),
            (stub.NodeGroupGetOptions, wire.NodeGroupAutoscalingOptionsRequest()),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await call(request)
            assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_provider_behind_tls_is_believed_by_its_authority_alone(tmp_path: Path) -> None:
    keys = Keys.open(tmp_path / "own")
    pair = (keys.key_file.read_bytes(), keys.certificate_file.read_bytes())
    server = grpc.aio.server()
    add_service(server, wire, ExternalService(Remembering(), GROUPS))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    await server.start()
    try:
        trusted = credentials(keys.authority_file)
        async with ExternalProvider(f"127.0.0.1:{port}", credentials=trusted) as client:
            assert [status.name for status in await client.groups()] == ["a", "b"]
        strange = credentials(Keys.open(tmp_path / "other").authority_file)
        async with ExternalProvider(f"127.0.0.1:{port}", credentials=strange) as client:
            with pytest.raises(ProviderError):
                await client.groups()
    finally:
        await server.stop(None)
