"""Claims between pods, checkpoint and drivers: real sockets, a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from dray.api.errors import ServiceUnavailable
from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing
from dray.api.reasons.claims import ClaimCode
from dray.api.reasons.wording import say
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import Client, InProcess, SystemClock
from dray.node.checkpoint import Checkpoint
from dray.node.claims import ClaimsError, ClaimsOnNode
from dray.node.plugins import Plugins
from tests.node.cluster import NAMESPACE, Cluster
from tests.node.driver import NAME, Driver
from tests.saying import not_reserved
from tests.waiting import eventually


class Place:
    """Claims with their plugins, which can be restarted."""

    def __init__(self, client: Client, root: Path, *, skips: bool = False) -> None:
        self._client = client
        self._root = root
        self._skips = skips

    async def begin(self) -> None:
        async def ignore(driver: str) -> None: ...

        self.plugins = Plugins(
            self._root / "plugins_registry", clock=SystemClock(), changed=lambda name: None, remove_slices=ignore
        )
        self.checkpoint, _ = Checkpoint.open(self._root / "claims.json")
        self.claims = ClaimsOnNode(self._client, self.checkpoint, self.plugins, Sharing(), skips=self._skips)
        self._task = asyncio.create_task(self.plugins.run())

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def restart(self) -> None:
        await self.end()
        await self.begin()

    async def knows(self, *names: str) -> None:
        await eventually(lambda: all((d := self.plugins.find(n)) is not None and d.connected for n in names))


@pytest.fixture
async def place(client: Client, root: Path) -> AsyncIterator[Place]:
    place = Place(client, root)
    await place.begin()
    yield place
    await place.end()


@pytest.fixture
async def claims(place: Place, driver: Driver) -> ClaimsOnNode:
    """Claims with the driver registered."""
    await driver.start()
    await place.knows(NAME)
    return place.claims


def cdi(claims: ClaimsOnNode, pod: Pod) -> list[str]:
    return [cdi for grant in claims.granted(pod, pod.spec.containers[0]) for cdi in grant.device.cdi]


async def test_a_claim_is_prepared_once_for_two_pods(cluster: Cluster, claims: ClaimsOnNode, driver: Driver) -> None:
    claim = await cluster.claim("c")
    first, second = await cluster.pod("a", claims=("c",)), await cluster.pod("b", claims=("c",))
    await asyncio.gather(claims.prepare(first), claims.prepare(second))
    await claims.prepare(first)
    assert driver.calls == [("prepare", [claim.metadata.uid])]
    assert cdi(claims, first) == cdi(claims, second) == [driver.cdi_id(claim.metadata.uid)]
    await claims.unprepare(first.metadata.uid)
    assert driver.called("unprepare") == []
    assert (claims.holds(first.metadata.uid), claims.holds(second.metadata.uid)) == (False, True)
    await claims.unprepare(second.metadata.uid)
    assert driver.called("unprepare") == [[claim.metadata.uid]]
    await claims.unprepare(second.metadata.uid)
    assert len(driver.called("unprepare")) == 1


async def test_the_claims_of_a_pod_go_in_one_call_a_driver(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver, place: Place, root: Path
) -> None:
    other = await Driver(root, "nic.test.example").start()
    await place.knows("nic.test.example")
    uids = [(await cluster.claim(name)).metadata.uid for name in ("a", "b")]
    both = await cluster.claim("both", drivers=(NAME, "nic.test.example"))
    pod = await cluster.pod("p", claims=("a", "b", "both"))
    await claims.prepare(pod)
    assert driver.called("prepare") == [[*uids, both.metadata.uid]]
    assert other.called("prepare") == [[both.metadata.uid]]
    await claims.unprepare(pod.metadata.uid)
    assert sorted(driver.called("unprepare")[0]) == sorted([*uids, both.metadata.uid])
    assert other.called("unprepare") == [[both.metadata.uid]]
    await other.stop()


async def test_a_container_gets_the_devices_of_the_requests_it_names(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver
) -> None:
    def device(name: str, *requests: str, ids: tuple[str, ...]) -> dict[str, Any]:
        return {"request_names": requests, "pool_name": "pool", "device_name": name, "cdi_device_ids": ids}

    driver.devices = lambda uid: [
        device("0", "gpu/large", ids=("v/c=0",)),
        device("1", "nic", ids=("v/c=1", "v/c=1b")),
        device("2", ids=("v/c=all",)),
        device("3", "gpu", ids=()),
    ]
    await cluster.claim("c", requests=("gpu", "nic"))
    containers = [
        {"name": name, "image": "i", "command": ["x"], "resources": {"claims": uses}}
        for name, uses in {
            "gpu": [{"name": "c", "request": "gpu"}],
            "nic": [{"name": "c", "request": "nic"}],
            "all": [{"name": "c"}],
            "none": [],
        }.items()
    ]
    pod = await cluster.pod("p", claims=("c",), containers=containers)
    await claims.prepare(pod)
    granted = {c.name: [i for g in claims.granted(pod, c) for i in g.device.cdi] for c in pod.spec.containers}
    assert granted == {
        "gpu": ["v/c=0", "v/c=all"],
        "nic": ["v/c=1", "v/c=1b", "v/c=all"],
        "all": ["v/c=0", "v/c=1", "v/c=1b", "v/c=all"],
        "none": [],
    }


# Refusals


async def refused(claims: ClaimsOnNode, pod: Pod) -> str:
    with pytest.raises(ClaimsError) as error:
        await claims.prepare(pod)
    return str(error.value)


async def test_a_claim_that_does_not_exist_is_named(cluster: Cluster, claims: ClaimsOnNode) -> None:
    pod = await cluster.pod("p", claims=("nope",), reserve=False)
    assert await refused(claims, pod) == say(ClaimCode.NOT_FOUND, claim="nope")


async def test_a_claim_from_a_template_that_is_not_there_yet_is_waited_for(
    cluster: Cluster, claims: ClaimsOnNode
) -> None:
    pod = await cluster.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    assert await refused(claims, pod) == say(ClaimCode.NOT_CREATED, entry="gpu")


async def test_a_claim_that_is_not_allocated_is_refused(cluster: Cluster, claims: ClaimsOnNode) -> None:
    await cluster.claim("c", allocate=False)
    pod = await cluster.pod("p", claims=("c",), reserve=False)
    assert await refused(claims, pod) == say(ClaimCode.NOT_ALLOCATED, claim="c")


async def test_a_claim_that_is_reserved_for_another_pod_is_refused(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver
) -> None:
    claim = await cluster.claim("c")
    await cluster.pod("other", claims=("c",))
    pod = await cluster.pod("p", claims=("c",), reserve=False)
    assert await refused(claims, pod) == not_reserved(pod, claim)
    assert not claims.holds(pod.metadata.uid)
    assert driver.calls == []


async def test_a_generated_claim_of_another_pod_is_refused(cluster: Cluster, claims: ClaimsOnNode) -> None:
    await cluster.claim("p-gpu-abcde")
    pod = await cluster.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    await cluster.reserve("p-gpu-abcde", pod)
    await cluster.status("p", {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-abcde"}]})
    assert await refused(claims, await cluster.get("p")) == say(ClaimCode.NOT_FOR_POD, claim="p-gpu-abcde", pod="p")


async def test_an_entry_that_needs_no_claim_needs_nothing(cluster: Cluster, claims: ClaimsOnNode) -> None:
    await cluster.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    await cluster.status("p", {"resourceClaimStatuses": [{"name": "gpu"}]})
    pod = await cluster.get("p")
    await claims.prepare(pod)
    assert claims.is_prepared(pod)


async def test_another_incarnation_of_a_claim_waits_for_the_old_one(
    cluster: Cluster, claims: ClaimsOnNode, client: Client
) -> None:
    old = await cluster.claim("c")
    first = await cluster.pod("a", claims=("c",))
    await claims.prepare(first)
    await client.patch(ResourceClaim, "c", {"status": {"reservedFor": None}}, NAMESPACE, subresource="status")
    await client.delete(ResourceClaim, "c", NAMESPACE)
    new = await cluster.claim("c")
    assert new.metadata.uid != old.metadata.uid
    second = await cluster.pod("b", claims=("c",))
    text = f"old ResourceClaim with same name c and different UID {old.metadata.uid} still exists"
    assert await refused(claims, second) == text
    await claims.unprepare(first.metadata.uid)
    await claims.prepare(second)


class TestShared:
    """Claims that are reserved for more than single pods."""

    @pytest.fixture
    async def server(self) -> AsyncIterator[Running]:
        gates = "DRAReservedForWorkloads=true,GenericWorkload=true,WorkloadPodGroupResourceClaimTemplate=true"
        running = await Running.open(
            ServerSettings(authenticate=False, disabled_plugins=("ServiceAccount",), gates=FeatureGates.parse(gates))
        )
        yield running
        await running.close()

    async def test_a_claim_for_any_pod(self, cluster: Cluster, claims: ClaimsOnNode, client: Client) -> None:
        closed = await cluster.claim("closed")
        pod = await cluster.pod("p", claims=("closed",), reserve=False)
        assert await refused(claims, pod) == not_reserved(pod, closed)
        await cluster.claim("c", any_pod=True)
        await claims.prepare(await cluster.pod("q", claims=("c",), reserve=False))

    async def test_no_pod_joins_a_deleted_claim_for_any_pod(
        self, cluster: Cluster, claims: ClaimsOnNode, client: Client
    ) -> None:
        claim = await cluster.claim("c", any_pod=True)
        first = await cluster.pod("first", claims=("c",), reserve=False)
        listed = await cluster.pod("listed", claims=("c",))
        await claims.prepare(first)
        await client.patch(ResourceClaim, "c", {"metadata": {"finalizers": ["example.com/keep"]}}, NAMESPACE)
        await client.delete(ResourceClaim, "c", NAMESPACE)
        late = await cluster.pod("late", claims=("c",), reserve=False)
        assert await refused(claims, late) == say(ClaimCode.DELETING, claim=claim.metadata.name)
        await claims.prepare(listed)
        await claims.prepare(first)

    async def test_a_claim_for_the_pods_group(self, cluster: Cluster, claims: ClaimsOnNode, client: Client) -> None:
        spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
        group = await client.create(PodGroup, {"metadata": {"name": "g"}, "spec": spec}, namespace=NAMESPACE)
        claim = await cluster.claim("c")
        member = {"schedulingGroup": {"podGroupName": "g"}}
        pod = await cluster.pod("p", claims=("c",), reserve=False, **member)
        assert await refused(claims, pod) == not_reserved(pod, claim)
        reference = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": group.metadata.uid}
        patch = {"status": {"reservedFor": [reference]}}
        await client.patch(ResourceClaim, "c", patch, NAMESPACE, subresource="status")
        await claims.prepare(pod)
        assert claims.is_prepared(pod)


async def test_a_driver_that_is_not_registered_leaves_nothing_behind(cluster: Cluster, place: Place) -> None:
    await cluster.claim("c")
    pod = await cluster.pod("p", claims=("c",))
    assert await refused(place.claims, pod) == f"DRA driver {NAME} is not registered"
    assert not place.claims.holds(pod.metadata.uid)


# Failures


async def test_an_error_of_one_claim_leaves_the_others_prepared(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver
) -> None:
    bad = await cluster.claim("bad")
    good = await cluster.claim("good")
    driver.fail = lambda method, uid: "no power" if uid == bad.metadata.uid else ""
    pod = await cluster.pod("p", claims=("bad", "good"))
    assert await refused(claims, pod) == f"ResourceClaim bad: DRA driver {NAME}: no power"
    driver.fail = lambda method, uid: ""
    await claims.prepare(pod)
    assert driver.called("prepare") == [[bad.metadata.uid, good.metadata.uid], [bad.metadata.uid]]


@pytest.mark.parametrize(
    "devices",
    [
        [{"device_name": "gpu-0", "cdi_device_ids": ["x" * 1_000_000]}],
        [{"device_name": f"gpu-{number}"} for number in range(20_000)],
    ],
)
async def test_an_answer_that_no_status_could_hold_is_a_failure(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver, devices: list[dict[str, Any]]
) -> None:
    driver.devices = lambda uid: devices
    await cluster.claim("gpu")
    pod = await cluster.pod("p", claims=("gpu",))
    with pytest.raises(ClaimsError, match="expected at most 65536 bytes about the claim"):
        await claims.prepare(pod)
    driver.fail = lambda method, uid: "no " * 1_000_000
    with pytest.raises(ClaimsError) as refused:
        await claims.prepare(pod)
    assert len(str(refused.value)) < 5000


async def test_a_claim_that_an_answer_leaves_out_is_asked_for_again(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver
) -> None:
    claim = await cluster.claim("c")
    driver.omit = {claim.metadata.uid}
    pod = await cluster.pod("p", claims=("c",))
    assert "did not answer for the claim" in await refused(claims, pod)
    driver.omit = set()
    await claims.prepare(pod)
    driver.omit = {claim.metadata.uid}
    with pytest.raises(ClaimsError, match="did not answer"):
        await claims.unprepare(pod.metadata.uid)
    assert claims.holds(pod.metadata.uid)
    driver.omit = set()
    await claims.unprepare(pod.metadata.uid)
    assert [len(driver.called(method)) for method in ("prepare", "unprepare")] == [2, 2]


async def test_after_not_found_the_claim_is_read_again(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver, client: Client
) -> None:
    await cluster.claim("c")
    pod = await cluster.pod("p", claims=("c",))

    def not_found(method: str, uid: str) -> str:
        raise LookupError("claim unknown")

    driver.fail = not_found
    assert "NOT_FOUND: claim unknown" in await refused(claims, pod)
    await client.patch(ResourceClaim, "c", {"status": {"reservedFor": None}}, NAMESPACE, subresource="status")
    await client.delete(ResourceClaim, "c", NAMESPACE)
    assert await refused(claims, pod) == say(ClaimCode.NOT_FOUND, claim="c")
    assert len(driver.called("prepare")) == 1


async def test_what_neither_driver_nor_server_knows_is_unprepared(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver, client: Client
) -> None:
    await cluster.claim("c")
    pod = await cluster.pod("p", claims=("c",))
    await claims.prepare(pod)

    def not_found(method: str, uid: str) -> str:
        raise LookupError("claim unknown")

    driver.fail = not_found
    with pytest.raises(ClaimsError, match="NOT_FOUND"):
        await claims.unprepare(pod.metadata.uid)
    await client.patch(ResourceClaim, "c", {"status": {"reservedFor": None}}, NAMESPACE, subresource="status")
    await client.delete(ResourceClaim, "c", NAMESPACE)
    await claims.unprepare(pod.metadata.uid)
    assert not claims.holds(pod.metadata.uid)


async def test_what_a_driver_does_not_know_stays_prepared_while_the_server_cannot_be_asked(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.claim("c")
    pod = await cluster.pod("p", claims=("c",))
    await claims.prepare(pod)

    def not_found(method: str, uid: str) -> str:
        raise LookupError("claim unknown")

    async def unanswered(*_: Any, **__: Any) -> Any:
        raise ServiceUnavailable("no connection")

    driver.fail = not_found
    with monkeypatch.context() as cut:
        cut.setattr(client, "get", unanswered)
        with pytest.raises(ClaimsError, match="NOT_FOUND"):
            await claims.unprepare(pod.metadata.uid)
    assert claims.holds(pod.metadata.uid)
    driver.fail = lambda method, uid: ""
    await claims.unprepare(pod.metadata.uid)
    assert len(driver.called("unprepare")) == 2
    assert not claims.holds(pod.metadata.uid)


async def test_a_new_claim_of_the_same_name_is_not_the_one_that_a_driver_does_not_know(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver, client: Client
) -> None:
    await cluster.claim("c")
    pod = await cluster.pod("p", claims=("c",))
    await claims.prepare(pod)
    await client.patch(ResourceClaim, "c", {"status": {"reservedFor": None}}, NAMESPACE, subresource="status")
    await client.delete(ResourceClaim, "c", NAMESPACE)
    await cluster.claim("c")

    def not_found(method: str, uid: str) -> str:
        raise LookupError("claim unknown")

    driver.fail = not_found
    await claims.unprepare(pod.metadata.uid)
    assert not claims.holds(pod.metadata.uid)


async def test_an_error_of_one_claim_leaves_the_others_unprepared(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver
) -> None:
    bad, good = await cluster.claim("bad"), await cluster.claim("good")
    pod = await cluster.pod("p", claims=("bad", "good"))
    await claims.prepare(pod)
    driver.fail = lambda method, uid: "busy" if uid == bad.metadata.uid else ""
    with pytest.raises(ClaimsError, match="busy"):
        await claims.unprepare(pod.metadata.uid)
    driver.fail = lambda method, uid: ""
    await claims.unprepare(pod.metadata.uid)
    first, second = driver.called("unprepare")
    assert sorted(first) == sorted([bad.metadata.uid, good.metadata.uid])
    assert second == [bad.metadata.uid]


async def test_an_error_of_one_driver_leaves_what_another_prepared(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver, place: Place, root: Path
) -> None:
    other = await Driver(root, "nic.test.example").start()
    await place.knows("nic.test.example")
    both = await cluster.claim("both", drivers=(NAME, "nic.test.example"))
    pod = await cluster.pod("p", claims=("both",))
    other.fail = lambda method, uid: "no link"
    assert "no link" in await refused(claims, pod)
    other.fail = lambda method, uid: ""
    await claims.prepare(pod)
    assert driver.called("prepare") == [[both.metadata.uid]]
    assert other.called("prepare") == [[both.metadata.uid], [both.metadata.uid]]
    await other.stop()


# Restarts


async def test_a_restart_repeats_no_call_and_unprepare_needs_no_claim(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver, place: Place, client: Client
) -> None:
    claim = await cluster.claim("c")
    pod = await cluster.pod("p", claims=("c",))
    await claims.prepare(pod)
    await place.restart()
    await place.knows(NAME)
    assert place.claims.is_prepared(pod)
    await place.claims.prepare(pod)
    assert cdi(place.claims, pod) == [driver.cdi_id(claim.metadata.uid)]
    assert len(driver.called("prepare")) == 1
    await client.patch(ResourceClaim, "c", {"status": {"reservedFor": None}}, NAMESPACE, subresource="status")
    await client.delete(ResourceClaim, "c", NAMESPACE)
    await place.claims.unprepare(pod.metadata.uid)
    assert driver.called("unprepare") == [[claim.metadata.uid]]
    assert place.checkpoint.claims == {}


async def test_calls_are_counted_by_the_codes_that_dashboards_know(
    cluster: Cluster, claims: ClaimsOnNode, driver: Driver
) -> None:
    def counted(code: str) -> float:
        path = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
        labels = {"driver_name": NAME, "method_name": path, "grpc_status_code": code}
        return REGISTRY.get_sample_value("dra_operations_seconds_count", labels) or 0

    def not_found(method: str, uid: str) -> str:
        raise LookupError("claim unknown")

    before = counted("NotFound"), counted("OK")
    await cluster.claim("c")
    pod = await cluster.pod("p", claims=("c",))
    driver.fail = not_found
    await refused(claims, pod)
    driver.fail = lambda method, uid: ""
    await claims.prepare(pod)
    assert (counted("NotFound"), counted("OK")) == (before[0] + 1, before[1] + 1)


async def test_claims_in_use_are_counted(cluster: Cluster, claims: ClaimsOnNode) -> None:
    def shown(driver: str) -> float:
        return REGISTRY.get_sample_value("dra_resource_claims_in_use", {"driver_name": driver}) or 0

    before = shown(NAME), shown("<any>")
    await cluster.claim("c")
    pod = await cluster.pod("p", claims=("c",))
    await claims.prepare(pod)
    assert (shown(NAME), shown("<any>")) == (before[0] + 1, before[1] + 1)
    await claims.unprepare(pod.metadata.uid)
    assert (shown(NAME), shown("<any>")) == before


@pytest.mark.parametrize("skips", [True, False])
async def test_calls_that_a_driver_does_not_need_are_left_out(root: Path, driver: Driver, skips: bool) -> None:
    gates = FeatureGates.parse("DRAOptionalNodeOperations=true")
    running = await Running.open(ServerSettings(gates=gates, authenticate=False, disabled_plugins=("ServiceAccount",)))
    cluster = Cluster(InProcess(running.api, ADMIN))
    place = Place(cluster.client, root, skips=skips)
    await place.begin()
    if not skips:
        await driver.start()
        await place.knows(NAME)
    await cluster.claim("nothing", skipNodeOperations=["*"])
    pod = await cluster.pod("p", claims=("nothing",))
    assert await place.claims.prepare(pod) == []  # with no driver at all, where calls are left out
    assert place.claims.is_prepared(pod)
    await place.restart()
    if not skips:
        await place.knows(NAME)
    await place.claims.unprepare(pod.metadata.uid)
    assert not place.claims.holds(pod.metadata.uid)
    if skips:
        await driver.start()
        await place.knows(NAME)
    kept = await cluster.claim("kept", skipNodeOperations=["NodeUnprepareResources"])
    pod = await cluster.pod("q", claims=("kept",))
    await place.claims.prepare(pod)
    assert driver.called("prepare")[-1] == [kept.metadata.uid]
    await place.claims.unprepare(pod.metadata.uid)
    assert not place.claims.holds(pod.metadata.uid)
    assert len(driver.called("unprepare")) == (0 if skips else 2)
    await place.end()
    await running.close()
