"""The controller against a real API server: each request is answered once, by a controller that may do little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from prometheus_client import REGISTRY

from dray.api.conversion import from_stored
from dray.api.errors import Forbidden, Invalid, NotFound, ServiceUnavailable, TooManyRequests
from dray.api.gates import FeatureGates
from dray.api.resources import BY_TYPE
from dray.api.times import timestamp
from dray.api.types.core import ConfigMap, Namespace, Pod, Secret
from dray.api.types.rbac import ClusterRole, ClusterRoleBinding
from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourcePoolStatusRequest, ResourceSlice
from dray.api.users import ADMIN, AUTHENTICATED, User
from dray.apiserver.admission.pool_status import RequestLimits
from dray.apiserver.assembly import Running, ServerSettings
from dray.apiserver.wire.serving import HttpServer, listen
from dray.client import Client, Clock, InProcess, ManualClock, SharedInformers
from dray.client.config import Config
from dray.client.http import Http
from dray.controllers import ControllerManager
from dray.controllers.poolstatus import controller as module
from tests.controllers.conftest import exists, gone, quiet
from tests.controllers.poolstatus.objects import DRIVER, claim_tree, slice_tree, tainted
from tests.waiting import eventually, within

ON = FeatureGates.parse("DRAResourcePoolStatus=true")
ACCOUNT = User(
    "system:serviceaccount:kube-system:resourcepoolstatusrequest-controller",
    groups=("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED),
)
ROLE = Path(__file__).parents[3] / "src/dray/examples/policies/pool-status-role.yaml"


def settings(gates: FeatureGates = ON, store: str = "memory", **more: Any) -> ServerSettings:
    return ServerSettings(gates=gates, store=store, disabled_plugins=("ServiceAccount", "NamespaceDefaults"), **more)


@pytest.fixture
async def server() -> AsyncIterator[Running]:
    running = await Running.open(settings())
    yield running
    await running.close()


@pytest.fixture
def client(server: Running) -> Client:
    return InProcess(server.api, ADMIN)


@asynccontextmanager
async def controller(
    server: Running,
    *,
    gates: FeatureGates = ON,
    own: Client | None = None,
    informers: SharedInformers | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[ControllerManager]:
    """The controller alone, as the account that it has in a cluster."""
    manager = ControllerManager(
        InProcess(server.api, ADMIN),
        gates=gates,
        controllers="resourcepoolstatusrequest",
        informers=informers,
        accounts=lambda _: own or InProcess(server.api, ACCOUNT),
        clock=clock,
    )
    task = asyncio.create_task(manager.run())
    try:
        yield manager
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def request(name: str = "check", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, **spec}}


async def ask(client: Client, name: str = "check", **spec: Any) -> ResourcePoolStatusRequest:
    """Create a request and wait for its answer."""
    await client.create(ResourcePoolStatusRequest, request(name, **spec))
    return await answered(client, name)


async def answered(client: Client, name: str = "check") -> ResourcePoolStatusRequest:
    async def done() -> bool:
        return (await client.get(ResourcePoolStatusRequest, name)).status is not None

    await eventually(done)
    return await client.get(ResourcePoolStatusRequest, name)


async def hold(client: Client, *devices: str, name: str = "c", pool: str = "node-1") -> None:
    """Create a claim that holds devices."""
    tree = claim_tree(name, *devices, pool=pool)
    status = tree.pop("status")
    await client.create(ResourceClaim, tree)
    await client.patch(ResourceClaim, name, {"status": status}, "default", subresource="status")


def numbers(found: ResourcePoolStatusRequest) -> list[tuple[Any, ...]]:
    assert found.status is not None
    return [
        (p.poolName, p.totalDevices, p.allocatedDevices, p.availableDevices, p.unavailableDevices)
        for p in found.status.pools
    ]


def figure(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


# Answers


async def test_a_pool_that_is_being_published_is_waited_for(server: Running, client: Client) -> None:
    await client.create(ResourceSlice, slice_tree("s1", ["d0", "d1"], of=2))
    async with controller(server) as manager:
        await within(manager.ready.wait())
        await client.create(ResourcePoolStatusRequest, request())
        looked_at = manager.controllers["resourcepoolstatusrequest"]
        await eventually(lambda: "check" in looked_at._incomplete)  # type: ignore[attr-defined]  # it waits
        assert (await client.get(ResourcePoolStatusRequest, "check")).status is None
        await client.create(ResourceSlice, slice_tree("s2", ["d2"], of=2))
        found = await answered(client)
        assert not looked_at._incomplete  # type: ignore[attr-defined]
    assert numbers(found) == [("node-1", 3, 0, 3, 0)]
    assert found.status is not None
    assert found.status.validationErrors == ()


async def test_a_pool_that_stays_incomplete_is_answered_without_counts(
    server: Running, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INCOMPLETE_SECONDS", 0.6)
    await client.create(ResourceSlice, slice_tree("s1", ["d0", "d1"], of=2))
    await client.create(ResourceSlice, slice_tree("s2", ["d0"], pool="node-2", node="node-2"))
    async with controller(server):
        found = await ask(client)
    assert numbers(found) == [("node-1", None, None, None, None), ("node-2", 1, 0, 1, 0)]
    assert found.status is not None
    lacking = found.status.pools[0]
    assert (lacking.resourceSliceCount, lacking.generation) == (None, 1)
    assert lacking.validationError is not None
    assert lacking.validationError.startswith("PoolIncomplete: ")
    assert [one.type for one in found.status.conditions] == ["Complete"]


async def test_a_new_request_is_answered_with_the_right_numbers(server: Running, client: Client) -> None:
    await client.create(ResourceSlice, slice_tree("s1", ["d0", "d1", tainted("d2")]))
    await client.create(ResourceSlice, slice_tree("s2", ["d0"], pool="node-2", node="node-2"))
    await client.create(ResourceSlice, slice_tree("s3", ["d0"], driver="other.example.com"))
    await hold(client, "d0")
    processed = figure("resourcepoolstatus_requests_processed_total")
    timed = figure("resourcepoolstatus_request_processing_duration_seconds_count")
    async with controller(server):
        found = await ask(client)
    assert numbers(found) == [("node-1", 3, 1, 1, 1), ("node-2", 1, 0, 1, 0)]
    assert found.status is not None
    assert [(c.type, c.status, c.reason) for c in found.status.conditions] == [
        ("Complete", "True", "CalculationComplete")
    ]
    assert found.status.observationTime is not None
    assert found.status.poolCount == 2
    assert found.status.pools[0].nodeName == "node-1"
    assert figure("resourcepoolstatus_requests_processed_total") == processed + 1
    assert figure("resourcepoolstatus_request_processing_duration_seconds_count") == timed + 1
    for name in ("requests_processed_total", "request_processing_duration_seconds_count"):
        assert figure(f"resourcepoolstatusrequest_controller_{name}") == figure(f"resourcepoolstatus_{name}")


def taint_rule(name: str, effect: str = "NoSchedule", **selector: str) -> dict[str, Any]:
    taint = {"key": "maintenance", "effect": effect}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}


async def test_taint_rules_that_keep_pods_away_make_free_devices_unavailable(server: Running, client: Client) -> None:
    await client.create(ResourceSlice, slice_tree("s1", ["d0", "d1", "d2", "d3"]))
    await client.create(ResourceSlice, slice_tree("s2", ["d0"], pool="node-2", node="node-2"))
    await hold(client, "d3")
    for device, effect in (("d0", "NoSchedule"), ("d1", "NoExecute"), ("d2", "None"), ("d3", "NoSchedule")):
        await client.create(DeviceTaintRule, taint_rule(device, effect, pool="node-1", device=device))
    async with controller(server):
        assert numbers(await ask(client)) == [("node-1", 4, 1, 1, 2), ("node-2", 1, 0, 1, 0)]


async def test_taint_rules_count_only_with_their_gate(server: Running, client: Client) -> None:
    await client.create(ResourceSlice, slice_tree())
    await client.create(DeviceTaintRule, taint_rule("all", driver=DRIVER))
    async with controller(server):
        assert numbers(await ask(client, "on")) == [("node-1", 2, 0, 0, 2)]
    async with controller(server, gates=FeatureGates.parse("DRAResourcePoolStatus=true,DRADeviceTaints=false")):
        assert numbers(await ask(client, "off")) == [("node-1", 2, 0, 2, 0)]


async def test_requests_that_wait_when_the_controller_starts_are_answered(server: Running, client: Client) -> None:
    await client.create(ResourcePoolStatusRequest, request())
    async with controller(server):
        assert numbers(await answered(client)) == []


async def test_a_pool_name_and_a_limit_narrow_the_answer(server: Running, client: Client) -> None:
    for number in range(4):
        await client.create(ResourceSlice, slice_tree(f"s{number}", pool=f"p{number}"))
    async with controller(server):
        one = await ask(client, "one", poolName="p2")
        some = await ask(client, "some", limit=3)
    assert [row[0] for row in numbers(one)] == ["p2"]
    assert [row[0] for row in numbers(some)] == ["p0", "p1", "p2"]
    old = from_stored(BY_TYPE[ResourcePoolStatusRequest], "v1alpha1", msgspec.to_builtins(some))
    assert old["status"]["truncated"] is True
    assert old["status"]["totalMatchingPools"] == 4
    complete = from_stored(BY_TYPE[ResourcePoolStatusRequest], "v1alpha1", msgspec.to_builtins(one))
    assert complete["status"]["truncated"] is False


@pytest.mark.wording
async def test_validation_errors_are_reported_and_the_status_is_still_written(server: Running, client: Client) -> None:
    await client.create(ResourceSlice, slice_tree("a", ["d0"], of=2))
    await client.create(ResourceSlice, slice_tree("b", ["d0"], of=2))
    await client.create(ResourceSlice, slice_tree("c", ["d0"], pool="whole"))
    async with controller(server):
        found = await ask(client)
    assert numbers(found) == [("node-1", 1, 0, 0, 1), ("whole", 1, 0, 1, 0)]
    assert found.status is not None
    assert found.status.validationErrors == ("pool node-1: device d0 appears in multiple slices",)
    assert found.status.conditions[0].type == "Complete"


async def test_a_computation_that_raises_fails_the_request(
    server: Running, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("no pools to divide by")

    monkeypatch.setattr(module, "answer", broken)
    errors = figure("resourcepoolstatus_request_processing_errors_total")
    async with controller(server):
        found = await ask(client)
    assert found.status is not None
    [condition] = found.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Failed", "True", "CalculationFailed")
    assert condition.message == "ZeroDivisionError: no pools to divide by"
    assert figure("resourcepoolstatus_request_processing_errors_total") == errors + 1


# Once


async def test_an_answered_request_is_never_touched_again(server: Running, client: Client) -> None:
    await client.create(ResourceSlice, slice_tree())
    async with controller(server):
        first = await ask(client)
        await hold(client, "gpu-0")
        await client.patch(ResourcePoolStatusRequest, "check", {"metadata": {"labels": {"a": "b"}}})
        await quiet()
        assert (await client.get(ResourcePoolStatusRequest, "check")).status == first.status
    async with controller(server):
        await quiet()
    assert (await client.get(ResourcePoolStatusRequest, "check")).status == first.status


async def test_deleted_and_created_again_it_is_answered_anew(server: Running, client: Client) -> None:
    await client.create(ResourceSlice, slice_tree())
    async with controller(server):
        assert numbers(await ask(client)) == [("node-1", 2, 0, 2, 0)]
        await client.delete(ResourcePoolStatusRequest, "check")
        await hold(client, "gpu-0")
        assert numbers(await ask(client)) == [("node-1", 2, 1, 1, 0)]


async def test_two_controllers_answer_a_request_once(server: Running, client: Client) -> None:
    writes = Counting(server)
    async with controller(server, own=writes), controller(server, own=writes):
        for number in range(10):
            await ask(client, f"r{number}")
        await quiet()
    assert writes.succeeded == 10


async def test_a_request_that_is_gone_before_its_answer_does_no_harm(server: Running, client: Client) -> None:
    async with controller(server, own=Deleting(server)):
        await client.create(ResourcePoolStatusRequest, request("fleeting"))
        await gone(client, ResourcePoolStatusRequest, "fleeting")
        await quiet(0.05)
        assert not await exists(client, ResourcePoolStatusRequest, "fleeting")


async def test_a_status_that_somebody_else_wrote_stands(server: Running, client: Client) -> None:
    await client.create(ResourcePoolStatusRequest, request())
    await client.patch(ResourcePoolStatusRequest, "check", {"status": {"poolCount": 7}}, subresource="status")
    errors = figure("resourcepoolstatus_request_processing_errors_total")
    async with controller(server):
        await eventually(lambda: figure("resourcepoolstatus_request_processing_errors_total") == errors + 1)
        await quiet()
    found = await client.get(ResourcePoolStatusRequest, "check")
    assert found.status is not None
    assert found.status.poolCount == 7
    assert figure("resourcepoolstatus_request_processing_errors_total") == errors + 1


class Counting(InProcess):
    """Counts the writes that the server took."""

    def __init__(self, server: Running) -> None:
        super().__init__(server.api, ACCOUNT)
        self.succeeded = 0

    async def patch_status(self, obj: Any, status: Any) -> Any:
        done = await super().patch_status(obj, status)
        self.succeeded += 1
        return done


class Deleting(InProcess):
    """Somebody deletes each request right before it is answered."""

    def __init__(self, server: Running) -> None:
        super().__init__(server.api, ADMIN)

    async def patch_status(self, obj: Any, status: Any) -> Any:
        await self.delete(type(obj), obj.metadata.name)
        return await super().patch_status(obj, status)


class Flaky(Counting):
    """Fails for a while."""

    def __init__(self, server: Running, failures: int) -> None:
        super().__init__(server)
        self.failures = failures

    async def patch_status(self, obj: Any, status: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise ServiceUnavailable("not now")
        return await super().patch_status(obj, status)


async def test_failed_writes_are_tried_again_and_counted(server: Running, client: Client) -> None:
    errors = figure("resourcepoolstatus_request_processing_errors_total")
    writes = Flaky(server, failures=3)
    async with controller(server, own=writes):
        assert (await ask(client)).status is not None
    assert writes.succeeded == 1
    assert figure("resourcepoolstatus_request_processing_errors_total") == errors + 3


# Only what is known for sure


class Reluctant(InProcess):
    """Lists a type only once it is told to."""

    def __init__(self, server: Running, type_: type[Any]) -> None:
        super().__init__(server.api, ADMIN)
        self.type = type_
        self.go = asyncio.Event()

    async def list(self, type_: Any, *arguments: Any, **options: Any) -> Any:
        if type_ is self.type:
            await self.go.wait()
        return await super().list(type_, *arguments, **options)


@pytest.mark.parametrize("late", [ResourceSlice, ResourceClaim, DeviceTaintRule])
async def test_nothing_is_answered_before_all_caches_are_complete(
    server: Running, client: Client, late: type[Any]
) -> None:
    await client.create(ResourceSlice, slice_tree())
    await hold(client, "gpu-0")
    reluctant = Reluctant(server, late)
    informers = SharedInformers(reluctant)
    await client.create(ResourcePoolStatusRequest, request())
    async with controller(server, informers=informers):
        await quiet()
        assert (await client.get(ResourcePoolStatusRequest, "check")).status is None
        reluctant.go.set()
        assert numbers(await answered(client)) == [("node-1", 2, 1, 1, 0)]
    await informers.stop()


# How long answers stay


@pytest.mark.parametrize("fails", [False, True])
async def test_a_request_lives_as_long_as_it_says_after_its_end(
    server: Running, client: Client, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    if fails:
        monkeypatch.setattr(module, "answer", lambda *_: 1 / 0)
    clock = ManualClock()
    async with controller(server, clock=clock):
        found = await ask(client, ttlSecondsAfterComplete=60)
        assert found.status is not None
        assert found.status.observationTime == timestamp(clock.time())
        await ask(client, "forever")
        await quiet(0.05)
        await clock.advance(59)
        await quiet(0.05)
        assert await exists(client, ResourcePoolStatusRequest, "check")
        await clock.advance(2)
        await gone(client, ResourcePoolStatusRequest, "check")
        assert await exists(client, ResourcePoolStatusRequest, "forever")


async def test_a_request_that_expired_while_no_controller_ran_is_deleted_at_the_start(
    server: Running, client: Client
) -> None:
    clock = ManualClock()
    async with controller(server, clock=clock):
        await client.create(ResourcePoolStatusRequest, request(ttlSecondsAfterComplete=0))
        await gone(client, ResourcePoolStatusRequest, "check")
        await ask(client, "later", ttlSecondsAfterComplete=10)
    await clock.advance(11)
    async with controller(server, clock=clock):
        await gone(client, ResourcePoolStatusRequest, "later")


# The gate


@asynccontextmanager
async def over_http(gates: FeatureGates, store: str, *, controlled: bool = True) -> AsyncIterator[Client]:
    """A cluster as its users see it."""
    running = await Running.open(settings(gates, store, authenticate=False))
    sock = listen("127.0.0.1", 0)
    http = HttpServer(running.http, sock, None)
    await http.start()
    try:
        async with Http(Config(f"http://127.0.0.1:{sock.getsockname()[1]}")) as client:
            async with controller(running, gates=gates if controlled else FeatureGates()):
                yield client
            running.drain()
    finally:
        await http.stop()
        await running.close()


async def test_off_hides_requests_and_on_again_shows_and_answers_them(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'state.db'}"
    async with over_http(ON, store, controlled=False) as client:
        await client.create(ResourcePoolStatusRequest, request())
    async with over_http(FeatureGates(), store) as client:
        with pytest.raises(NotFound):
            await client.get(ResourcePoolStatusRequest, "check")
    async with over_http(ON, store) as client:
        assert (await answered(client)).status is not None


async def test_without_the_controller_requests_stay_pending(server: Running, client: Client) -> None:
    await client.create(ResourcePoolStatusRequest, request())
    async with controller(server, gates=FeatureGates()) as manager:
        assert not manager.controllers
        await quiet()
    assert (await client.get(ResourcePoolStatusRequest, "check")).status is None


async def test_without_the_api_the_controller_waits_in_peace() -> None:
    async with over_http(FeatureGates(), "memory", controlled=False) as client:
        manager = ControllerManager(client, gates=ON, controllers="resourcepoolstatusrequest")
        task = asyncio.create_task(manager.run())
        await within(manager.ready.wait())
        await quiet(0.05)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# Who may what


async def test_the_controller_may_read_what_it_counts_and_write_answers_and_nothing_else(
    server: Running, client: Client
) -> None:
    own = InProcess(server.api, ACCOUNT)
    await client.create(ResourceSlice, slice_tree())
    await client.create(DeviceTaintRule, taint_rule("all", driver=DRIVER))
    await client.create(ResourcePoolStatusRequest, request())
    await hold(client, "gpu-0")
    for readable in (ResourceSlice, DeviceTaintRule, ResourceClaim, ResourcePoolStatusRequest):
        assert (await own.list(readable)).items
    forbidden: list[Callable[[], Awaitable[Any]]] = [
        lambda: own.list(Pod),
        lambda: own.list(Secret),
        lambda: own.create(ConfigMap, {"metadata": {"name": "x", "namespace": "default"}}),
        lambda: own.create(ResourcePoolStatusRequest, request("mine")),
        lambda: own.patch(ResourcePoolStatusRequest, "check", {"metadata": {"labels": {"a": "b"}}}),
        lambda: own.patch(ResourceClaim, "c", {"status": {"allocation": None}}, "default", subresource="status"),
        lambda: own.delete(ResourceClaim, "c", "default"),
        lambda: own.delete(ResourceSlice, "s0"),
        lambda: own.delete(DeviceTaintRule, "all"),
    ]
    for attempt in forbidden:
        with pytest.raises(Forbidden):
            await attempt()


async def grant_pool_status(client: Client, user: str) -> None:
    role = yaml.safe_load(ROLE.read_text())
    await client.create(ClusterRole, role)
    await client.create(
        ClusterRoleBinding,
        {
            "metadata": {"name": "pool-status"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role["metadata"]["name"],
            },
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        },
    )


async def test_nobody_but_the_administrator_may_ask_unless_granted(server: Running, client: Client) -> None:
    jane = InProcess(server.api, User("jane", groups=(AUTHENTICATED,)))
    with pytest.raises(Forbidden):
        await jane.create(ResourcePoolStatusRequest, request())
    await client.create(
        ClusterRoleBinding,
        {
            "metadata": {"name": "jane-is-admin"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
        },
    )
    with pytest.raises(Forbidden):
        await jane.create(ResourcePoolStatusRequest, request())


async def test_the_shipped_role_shows_numbers_and_nothing_about_claims(server: Running, client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": "hidden-namespace"}})
    await client.create(ResourceSlice, slice_tree())
    await hold(client, "gpu-0", name="hidden-claim")
    held = await client.get(ResourceClaim, "hidden-claim", "default")
    await grant_pool_status(client, "jane")
    jane = InProcess(server.api, User("jane", groups=(AUTHENTICATED,)))
    async with controller(server):
        found = await ask(jane)
        watch = jane.watch(ResourcePoolStatusRequest, timeout=60)
        assert await anext(watch)
        await watch.aclose()
    assert numbers(found) == [("node-1", 2, 1, 1, 0)]
    text = msgspec.json.encode(found).decode()
    for secret in ("hidden-claim", held.metadata.uid, "gpu-0", "gpu-1", "default"):
        assert secret not in text
    for type_ in (ResourceClaim, ResourceSlice, Pod):
        with pytest.raises(Forbidden):
            await jane.list(type_)
    await jane.delete(ResourcePoolStatusRequest, "check")
    assert not (await jane.list(ResourcePoolStatusRequest)).items


async def test_who_asks_too_often_is_told_when_to_come_back() -> None:
    running = await Running.open(settings(pool_status=RequestLimits(per_minute=6, burst=2, cap=3)))
    jane, joe = (InProcess(running.api, User(name, groups=("system:masters",))) for name in ("jane", "joe"))
    for number in range(2):
        await jane.create(ResourcePoolStatusRequest, request(f"r{number}"))
    with pytest.raises(TooManyRequests, match="at most 6 per minute, 2 at once") as refused:
        await jane.create(ResourcePoolStatusRequest, request("r2"))
    assert refused.value.details["retryAfterSeconds"] == 10
    await joe.create(ResourcePoolStatusRequest, request("joe"))
    with pytest.raises(TooManyRequests, match="the cluster holds 3"):
        await joe.create(ResourcePoolStatusRequest, request("full"))
    await running.close()


async def test_bad_requests_are_refused_by_field(client: Client) -> None:
    for spec, field in (
        ({"driver": ""}, "spec.driver"),
        ({"driver": DRIVER, "limit": 0}, "spec.limit"),
        ({"driver": DRIVER, "limit": 1001}, "spec.limit"),
        ({"driver": DRIVER, "ttlSecondsAfterComplete": -1}, "spec.ttlSecondsAfterComplete"),
    ):
        with pytest.raises(Invalid, match=field.replace(".", r"\.")):
            await client.create(ResourcePoolStatusRequest, {"metadata": {"name": "bad"}, "spec": spec})
    made = await client.create(ResourcePoolStatusRequest, request())
    assert made.spec.limit == 100
    with pytest.raises(Invalid, match="immutable"):
        await client.patch(ResourcePoolStatusRequest, "check", {"spec": {"limit": 5}})


# Size


async def test_the_largest_answer_fits_into_a_megabyte_and_a_half(server: Running, client: Client) -> None:
    driver = "d" * 59 + ".com"
    label = ".".join(["n" * 62] * 3)
    for number in range(1000):
        name = f"{label}.{'x' * 58}{number:04}"
        device = "g" * 63
        await client.create(
            ResourceSlice,
            slice_tree(f"s{number}", [device], driver=driver, pool=name, node=name[:253], generation=2**62, of=900_000),
        )
    async with controller(server):
        await client.create(
            ResourcePoolStatusRequest, {"metadata": {"name": "n" * 253}, "spec": {"driver": driver, "limit": 1000}}
        )
        found = await answered(client, "n" * 253)
    assert found.status is not None
    assert len(found.status.pools) == 1000
    assert all(pool.validationError for pool in found.status.pools)
    size = len(msgspec.json.encode(found))
    # Texts about a pool may be as long as the API allows, whatever this controller happens to write.
    worst = size + sum(256 - len(pool.validationError or "") for pool in found.status.pools)
    assert worst < 1_500_000
