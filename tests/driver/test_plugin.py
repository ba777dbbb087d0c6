"""The sockets of a driver as a kubelet written in Go sees them: names, numbers and bytes, none of them from our stubs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from dray.client import Client
from dray.driver import DeviceHealth, Runner
from dray.driver.example import GpuDriver, NetworkDriver
from tests.driver.conftest import NODE
from tests.driver.places import Kubelet, Places, allocated_claim

GPU = "gpu.example.com"


def field(number: int, *values: bytes | str) -> bytes:
    """Length-delimited fields of a protobuf message; short ones only."""
    out = b""
    for value in values:
        data = value.encode() if isinstance(value, str) else value
        length = bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])
        out += bytes([number << 3 | 2]) + length + data
    return out


async def call(socket: Path, method: str, request: bytes, authority: str = "localhost") -> bytes:
    """A call with bytes in and bytes out."""
    options = [("grpc.default_authority", authority)] if authority else []
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        answer: bytes = await channel.unary_unary(method)(request, timeout=10)
        return answer


@pytest.fixture
async def running(client: Client, places: Places) -> AsyncIterator[Runner]:
    driver = GpuDriver(NODE)
    async with Runner(driver, client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi) as runner:
        yield runner


@pytest.fixture
def endpoint(places: Places) -> Path:
    return places.kubelet / "plugins" / GPU / "dra.sock"


async def test_registration_in_bytes(running: Runner, places: Places, endpoint: Path) -> None:
    socket = places.registration(GPU)
    info = await call(socket, "/pluginregistration.Registration/GetInfo", b"")
    services = ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
    services += ["v1.DRAResourceHealth", "v1beta1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]
    assert info == field(1, "DRAPlugin") + field(2, GPU) + field(3, str(endpoint)) + field(4, *services)
    registered, refused = b"\x08\x01", field(2, "no")
    for status in (registered, refused):
        assert await call(socket, "/pluginregistration.Registration/NotifyRegistrationStatus", status) == b""


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_prepare_and_unprepare_in_bytes(running: Runner, client: Client, endpoint: Path, version: str) -> None:
    claim = await allocated_claim(client, "c", ["gpu-2"])
    uid = claim.metadata.uid
    request = field(1, field(1, "default") + field(2, uid) + field(3, "c"))
    service = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin"
    cdi = f"k8s.{GPU}/claim={uid}-0-gpu-2"
    device = field(1, "r0") + field(2, NODE) + field(3, "gpu-2") + field(4, cdi)
    answer = await call(endpoint, f"{service}/NodePrepareResources", request)
    assert answer == field(1, field(1, uid) + field(2, field(1, device)))
    answer = await call(endpoint, f"{service}/NodeUnprepareResources", request)
    assert answer in (field(1, field(1, uid) + field(2, b"")), field(1, field(1, uid)))


async def test_the_error_of_a_claim_has_its_own_field(running: Runner, client: Client, endpoint: Path) -> None:
    claim = await allocated_claim(client, "c", ["gpu-99"])
    uid = claim.metadata.uid
    request = field(1, field(1, "default") + field(2, uid) + field(3, "c"))
    answer = await call(endpoint, "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", request)
    assert answer == field(1, field(1, uid) + field(2, field(2, f"device gpu-99 does not exist in pool {NODE}")))


@pytest.mark.parametrize("authority", ["localhost", "", "%2Fvar%2Flib%2Fdra.sock", "anything"])
async def test_any_authority_is_welcome(running: Runner, places: Places, authority: str) -> None:
    socket = places.registration(GPU)
    assert await call(socket, "/pluginregistration.Registration/GetInfo", b"", authority)


async def test_a_claim_that_does_not_exist_is_not_found(running: Runner, client: Client, places: Places) -> None:
    kubelet = Kubelet(places.registration(GPU))
    unknown = {"namespace": "default", "name": "unknown", "uid": "0000"}
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await kubelet.prepare(unknown)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    claim = await allocated_claim(client, "c", ["gpu-2"])
    answers = await kubelet.prepare(unknown, claim)
    assert (bool(answers["0000"].error), answers[claim.metadata.uid].error) == (True, "")
    assert (await kubelet.unprepare(unknown))["0000"].error == ""


async def test_an_empty_call_is_answered(running: Runner, places: Places) -> None:
    kubelet = Kubelet(places.registration(GPU))
    assert len(await kubelet.prepare()) == 0
    assert len(await kubelet.unprepare()) == 0


class Ailing(GpuDriver):
    async def health(self) -> list[DeviceHealth]:
        return [
            DeviceHealth(NODE, "gpu-0", True),
            DeviceHealth(NODE, "gpu-1", False, "hot"),
            DeviceHealth("p", "x", None),
        ]


@pytest.mark.parametrize("service", ["v1", "v1beta1", "v1alpha1"])
async def test_health_in_bytes_and_the_stream_ends_with_the_driver(
    client: Client, places: Places, endpoint: Path, service: str
) -> None:
    runner = Runner(Ailing(NODE), client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi)
    async with grpc.aio.insecure_channel(f"unix:{endpoint}") as channel:
        async with runner:
            stream = channel.unary_stream(f"/{service}.DRAResourceHealth/NodeWatchResources")(b"", timeout=10)
            first = await stream.read()
            waiting = asyncio.ensure_future(stream.read())
            await asyncio.sleep(0)
        assert await waiting is grpc.aio.EOF
    healthy = field(1, field(1, NODE) + field(2, "gpu-0")) + b"\x10\x01\x18"
    assert first[2:].startswith(healthy)
    assert field(1, field(1, NODE) + field(2, "gpu-1")) + b"\x10\x02\x18" in first
    assert field(5, "hot") in first


async def test_a_driver_without_health_does_not_announce_it(client: Client, places: Places) -> None:
    driver = NetworkDriver()
    async with Runner(driver, client, node=NODE, kubelet_dir=places.kubelet, cdi_dir=places.cdi):
        info = await Kubelet(places.registration(driver.name)).info()
        assert [*info.supported_versions] == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
