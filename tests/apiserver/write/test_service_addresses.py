"""Cluster addresses and node ports: who gets which, what is refused, and that nothing is given out twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import ApiError, InternalError, Invalid
from dray.api.resources import BY_TYPE
from dray.api.types.core import Service
from dray.api.types.networking import IPAddress, ServiceCIDR
from dray.api.users import ADMIN
from dray.api.wire import Tree
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import InProcess
from dray.store import Op
from tests.apiserver.asking import Asker
from tests.store.etcd_process import Etcd

SERVICES = BY_TYPE[Service]


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    running = await Running.open(ServerSettings(keys=None))
    yield running
    await running.close()


@pytest.fixture
def client(running: Running) -> InProcess:
    return InProcess(running.api, ADMIN)


def service(name: str, *ports: Tree, **spec: Any) -> Tree:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"ports": [*ports] or [{"port": 80}], **spec}}


async def create(client: InProcess, name: str, *ports: Tree, **spec: Any) -> Service:
    return await client.create(Service, service(name, *ports, **spec))


async def change(client: InProcess, name: str, **spec: Any) -> Service:
    return await client.patch(Service, name, {"spec": spec}, "default")


async def addresses(client: InProcess) -> dict[str, str]:
    """The names of Services by the addresses that they hold."""
    parents = {one.metadata.name: one.spec.parentRef for one in (await client.list(IPAddress)).items}
    return {address: parent.name for address, parent in parents.items() if parent is not None}


async def narrow(client: InProcess, *cidrs: str) -> None:
    """Let the cluster have these ranges only."""
    await client.delete(ServiceCIDR, "kubernetes")
    await client.create(ServiceCIDR, {"metadata": {"name": "narrow"}, "spec": {"cidrs": [*cidrs]}})


async def test_a_service_gets_an_address_that_it_keeps_until_it_is_gone(client: InProcess) -> None:
    made = (await create(client, "web")).spec
    assert made.clusterIP.startswith("10.")
    assert made.clusterIPs == (made.clusterIP,)
    assert (made.ipFamilies, made.ipFamilyPolicy, made.internalTrafficPolicy) == (("IPv4",), "SingleStack", "Cluster")
    assert await addresses(client) == {made.clusterIP: "web"}
    await client.update(Service, service("web", {"port": 81}))
    assert (await client.get(Service, "web", "default")).spec.clusterIP == made.clusterIP
    await client.delete(Service, "web", "default")
    assert await addresses(client) == {}


async def test_a_headless_service_and_an_external_name_hold_nothing(client: InProcess) -> None:
    headless = await create(client, "headless", clusterIP="None", selector={"a": "b"})
    assert (headless.spec.clusterIPs, headless.spec.ipFamilies) == (("None",), ("IPv4",))
    anywhere = await create(client, "anywhere", clusterIP="None")
    assert anywhere.spec.ipFamilies == ("IPv4", "IPv6")
    assert anywhere.spec.ipFamilyPolicy == "RequireDualStack"
    named = await create(client, "named", type="ExternalName", externalName="example.com")
    assert (named.spec.clusterIP, named.spec.ipFamilies, named.spec.ipFamilyPolicy) == ("", (), None)
    assert named.spec.internalTrafficPolicy is None
    assert await addresses(client) == {}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"clusterIP": "10.96.0.9"}, "failed to allocate IP 10.96.0.9: provided IP is already allocated"),
        ({"clusterIP": "192.168.0.9"}, "192.168.0.9: the provided network does not match the current range"),
        ({"clusterIP": "10.96.0.0"}, r"the provided IP \(10.96.0.0\) is not in the valid range"),
        ({"clusterIP": "nonsense"}, r"spec.clusterIPs\[0\]: Invalid value: \"nonsense\": must be a valid IP address"),
        ({"clusterIPs": ["10.96.0.8"]}, "must be empty when `clusterIP` is not specified"),
        ({"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.7"]}, "first value must match `clusterIP`"),
        ({"clusterIP": "10.96.0.8", "ipFamilies": ["IPv6"]}, r"an IPv6 value as indicated by `ipFamilies\[0\]`"),
        ({"ipFamilies": ["IPv6"]}, r"spec.ipFamilies\[0\]: Invalid value: \"IPv6\": not configured on this cluster"),
        ({"ipFamilyPolicy": "RequireDualStack"}, "this cluster is not configured for dual-stack services"),
        ({"ipFamilyPolicy": "Any"}, 'supported values: "PreferDualStack", "RequireDualStack", "SingleStack"'),
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}, "The range of valid ports is 30000-32767"),
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30009}]}, "provided port is already allocated"),
        ({"type": "ExternalName", "externalName": "a", "clusterIP": "10.96.0.8"}, "may not be set for ExternalName"),
        ({"externalTrafficPolicy": "Local"}, "may only be set for externally-accessible services"),
        ({"internalTrafficPolicy": "Some"}, r"spec.internalTrafficPolicy: Unsupported value: \"Some\""),
    ],
)
async def test_what_cannot_be_had_is_refused(client: InProcess, spec: Tree, words: str) -> None:
    await create(client, "first", {"port": 80, "nodePort": 30009}, type="NodePort", clusterIP="10.96.0.9")
    with pytest.raises(Invalid, match=words):
        await client.create(Service, service("second", **spec))
    assert await addresses(client) == {"10.96.0.9": "first"}


async def test_node_ports_are_assigned_shared_between_protocols_and_given_back(client: InProcess) -> None:
    ports = [{"port": 53, "name": "udp", "protocol": "UDP"}, {"port": 53, "name": "tcp"}, {"port": 80, "name": "web"}]
    udp, tcp, web = ((await create(client, "dns", *ports, type="NodePort")).spec).ports
    assert udp.nodePort == tcp.nodePort != web.nodePort
    assert 30000 <= web.nodePort <= 32767
    with pytest.raises(Invalid, match="provided port is already allocated"):
        await create(client, "other", {"port": 1, "nodePort": web.nodePort}, type="NodePort")
    plain = (await change(client, "dns", type="ClusterIP")).spec
    assert [port.nodePort for port in plain.ports] == [0, 0, 0]
    assert plain.externalTrafficPolicy == ""
    await create(client, "other", {"port": 1, "nodePort": web.nodePort}, type="NodePort")


async def test_an_update_without_node_ports_keeps_them_by_name(client: InProcess) -> None:
    before = (await create(client, "web", {"port": 80, "name": "a"}, {"port": 81, "name": "b"}, type="NodePort")).spec
    changed = service("web", {"port": 90, "name": "b"}, {"port": 80, "name": "a"}, type="NodePort")
    after = (await client.update(Service, changed)).spec
    assert {port.name: port.nodePort for port in after.ports} == {port.name: port.nodePort for port in before.ports}


async def test_a_load_balancer_that_keeps_clients_local_has_a_port_for_health_checks(client: InProcess) -> None:
    made = (await create(client, "lb", type="LoadBalancer", externalTrafficPolicy="Local")).spec
    assert 30000 <= made.healthCheckNodePort <= 32767
    assert made.healthCheckNodePort != made.ports[0].nodePort
    port = made.healthCheckNodePort
    with pytest.raises(InternalError, match="failed to allocate requested HealthCheck NodePort"):
        await create(client, "b", type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=port)
    without = await change(client, "lb", externalTrafficPolicy="Cluster")
    assert without.spec.healthCheckNodePort == 0
    none = await create(client, "none", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert none.spec.ports[0].nodePort == 0


async def test_changes_of_type_give_back_and_take_addresses(client: InProcess) -> None:
    first = (await create(client, "web")).spec.clusterIP
    named = (await change(client, "web", type="ExternalName", externalName="example.com")).spec
    assert (named.clusterIP, named.ipFamilies, await addresses(client)) == ("", (), {})
    again = (await change(client, "web", type="ClusterIP", externalName=None)).spec
    assert again.clusterIP
    assert await addresses(client) == {again.clusterIP: "web"}
    assert first not in await addresses(client) or first == again.clusterIP
    with pytest.raises(Invalid, match=r"spec.clusterIPs\[0\].*may not change once set"):
        await change(client, "web", clusterIP="10.96.0.77", clusterIPs=["10.96.0.77"])
    assert (await change(client, "web", clusterIP="", clusterIPs=None)).spec.clusterIP == again.clusterIP


async def test_a_dry_run_shows_an_address_and_holds_none(running: Running, client: InProcess) -> None:
    ask = Asker(running.api)
    shown = await ask.create(SERVICES, service("web", type="NodePort"), namespace="default", dry_run=True)
    assert shown.spec.clusterIP
    assert shown.spec.ports[0].nodePort
    assert await addresses(client) == {}
    same = service("b", {"port": 1, "nodePort": shown.spec.ports[0].nodePort}, type="NodePort")
    same["spec"]["clusterIP"] = shown.spec.clusterIP
    await client.create(Service, same)


async def test_a_full_range_says_so_until_there_is_another_one(client: InProcess) -> None:
    await narrow(client, "10.1.0.0/30")
    got = {(await create(client, name)).spec.clusterIP for name in "ab"}
    assert got == {"10.1.0.1", "10.1.0.2"}
    with pytest.raises(InternalError, match="failed to allocate a serviceIP: range is full"):
        await create(client, "c")
    await client.create(ServiceCIDR, {"metadata": {"name": "wider"}, "spec": {"cidrs": ["10.2.0.0/30"]}})
    assert (await create(client, "c")).spec.clusterIP.startswith("10.2.0.")
    await client.delete(Service, "a", "default")
    assert (await create(client, "d")).spec.clusterIP in got


async def test_a_cluster_with_two_families_gives_two_addresses_and_takes_one_back(client: InProcess) -> None:
    await narrow(client, "10.1.0.0/24", "fd00::/112")
    assert (await create(client, "single")).spec.ipFamilies == ("IPv4",)
    both = (await create(client, "both", ipFamilyPolicy="PreferDualStack")).spec
    assert both.ipFamilies == ("IPv4", "IPv6")
    assert len(both.clusterIPs) == 2
    assert len(await addresses(client)) == 3
    one = (await change(client, "both", ipFamilyPolicy="SingleStack")).spec
    assert one.clusterIPs == both.clusterIPs[:1]
    assert len(await addresses(client)) == 2
    two = (await change(client, "both", ipFamilyPolicy="RequireDualStack")).spec
    assert two.clusterIPs[0] == one.clusterIP
    assert len(two.clusterIPs) == 2
    six = (await create(client, "six", ipFamilies=["IPv6"])).spec
    assert ":" in six.clusterIP
    assert six.ipFamilyPolicy == "SingleStack"


async def test_services_that_are_made_together_get_different_addresses_or_none(client: InProcess) -> None:
    await narrow(client, "10.1.0.0/28")
    made = await asyncio.gather(*(create(client, f"s{i}") for i in range(16)), return_exceptions=True)
    got = [one.spec.clusterIP for one in made if isinstance(one, Service)]
    assert len(got) == len(set(got)) == 14
    assert all(isinstance(one, Service | ApiError) for one in made)


async def test_two_servers_on_one_etcd_give_no_address_and_no_port_twice(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path)
    etcd.start()
    store = f"etcd://{etcd.endpoint}"
    servers = [await Running.open(ServerSettings(keys=None, store=store)) for _ in range(2)]
    try:
        clients = [InProcess(server.api, ADMIN) for server in servers]
        await narrow(clients[0], "10.1.0.0/28")
        await servers[1].api.storage.cache.read()
        made = await asyncio.gather(
            *(create(clients[i % 2], f"t{i}", {"port": 1, "nodePort": 30123}, type="NodePort") for i in range(2)),
            *(create(clients[i % 2], f"s{i}", type="NodePort") for i in range(13)),
            return_exceptions=True,
        )
        got = [one.spec for one in made if isinstance(one, Service)]
        assert len({spec.clusterIP for spec in got}) == len({spec.ports[0].nodePort for spec in got}) == len(got)
        assert sum(spec.ports[0].nodePort == 30123 for spec in got) == 1
        assert [type(one) for one in made].count(Invalid) == 1
    finally:
        for server in servers:
            await server.close()
        etcd.kill()


async def test_services_of_an_earlier_version_get_addresses_when_a_server_starts(tmp_path: Path) -> None:
    settings = ServerSettings(keys=None, store=f"sqlite:{tmp_path / 'db'}")
    running = await Running.open(settings)
    client, cache = InProcess(running.api, ADMIN), running.api.storage.cache
    kept = (await create(client, "kept", type="NodePort")).spec
    for version in cache.list("servicenodeports/").versions:
        await cache.commit([Op(version.key, None)])
    old = (
        b'{"metadata":{"name":"old","namespace":"default","uid":"u"},"spec":{"type":"ClusterIP","ports":[{"port":1}]}}'
    )
    await cache.commit([Op("services/default/old", old)])
    await client.delete(IPAddress, kept.clusterIP)
    orphan = {"metadata": {"name": "10.96.0.5", "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}}}
    parent = {"resource": "services", "namespace": "default", "name": "gone"}
    await client.create(IPAddress, {**orphan, "spec": {"parentRef": parent}})
    await running.close()

    running = await Running.open(settings)
    client = InProcess(running.api, ADMIN)
    given = (await client.get(Service, "old", "default")).spec.clusterIP
    assert await addresses(client) == {kept.clusterIP: "kept", given: "old"}
    with pytest.raises(Invalid, match="provided port is already allocated"):
        await create(client, "new", {"port": 1, "nodePort": kept.ports[0].nodePort}, type="NodePort")
    await running.close()
