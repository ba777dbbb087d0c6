"""Quota: limits hold from the first moment, for everybody at once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.decode import to_object
from dray.api.errors import Forbidden
from dray.api.resources import BY_TYPE
from dray.api.types.core import ConfigMap, ResourceQuota
from dray.apiserver.admission import Chain
from dray.apiserver.admission.quota import Quota
from dray.apiserver.read.reader import many, one
from dray.apiserver.read.storage import Storage, decode, written
from dray.apiserver.write.commits import Commits
from dray.store import Cache, MemoryLog
from tests.apiserver.admission.writing import about, create, update
from tests.apiserver.reading import Objects, claim, exactly, pod
from tests.waiting import within

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
CLAIMS = "count/resourceclaims.resource.k8s.io"


def quota(hard: dict[str, str], used: dict[str, str] | None = None, name: str = "q", **spec: Any) -> dict[str, Any]:
    tree = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "default"}}
    status = {"hard": hard, "used": used} if used is not None else {}
    return {**tree, "spec": {"hard": hard, **spec}, "status": status}


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


def charged(asked: Any) -> dict[str, str]:
    (write,) = asked.writes
    return dict(write.tree["status"]["used"])


async def test_charge_is_written_with_the_object_on_condition_of_the_quota() -> None:
    objects = Objects(quota({DEVICES: "3", CLAIMS: "5"}, {DEVICES: "1", CLAIMS: "1"}))
    asked = await create(Quota(objects), claim("c", exactly("r", count=2)))
    (write,) = asked.writes
    found = one(objects, ResourceQuota, "default", "q")
    assert found
    assert write.expected == found.metadata.resourceVersion
    assert write.tree["status"] == {"hard": {DEVICES: "3", CLAIMS: "5"}, "used": {DEVICES: "3", CLAIMS: "2"}}
    await asked.release()


async def test_refusal_names_what_exceeds() -> None:
    objects = Objects(quota({DEVICES: "3", CLAIMS: "5"}, {DEVICES: "2", CLAIMS: "1"}))
    with pytest.raises(Forbidden) as caught:
        await create(Quota(objects), claim("c", exactly("r", count=2)))
    assert caught.value.message == (
        'resourceclaims.resource.k8s.io "c" is forbidden: exceeded quota: q, '
        f"requested: {DEVICES}=2, used: {DEVICES}=2, limited: {DEVICES}=3"
    )


@pytest.mark.parametrize(
    ("requests", "count"),
    [
        ([exactly("r", count=2), exactly("s", count=3)], 5),
        ([exactly("r", allocationMode="All", count=0)], 32),
        ([exactly("r", "other", count=7)], 0),
        ([exactly("r", adminAccess=True)], 1),
        ([{"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu", "count": 4}]}], 4),
        (
            [
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "a", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 4},
                        {"name": "b", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
                        {"name": "c", "deviceClassName": "other", "allocationMode": "All"},
                    ],
                },
                exactly("s"),
            ],
            5,
        ),
    ],
)
async def test_devices_count_by_the_worst_case(requests: list[dict[str, Any]], count: int) -> None:
    enough = Objects(quota({DEVICES: str(count)}, {DEVICES: "0"}))
    asked = await create(Quota(enough), claim("c", *requests))
    if not count:
        assert asked.writes == []
        return
    assert charged(asked) == {DEVICES: str(count)}
    with pytest.raises(Forbidden, match=f"requested: {DEVICES}={count}"):
        await create(Quota(Objects(quota({DEVICES: str(count - 1)}, {DEVICES: "0"}))), claim("c", *requests))


async def test_every_alternative_must_fit() -> None:
    alternatives = {
        "name": "r",
        "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
            {"name": "b", "deviceClassName": "big", "allocationMode": "ExactCount", "count": 1},
        ],
    }
    hard = {DEVICES: "5", "big.deviceclass.resource.k8s.io/devices": "0"}
    with pytest.raises(Forbidden, match=r"requested: big\.deviceclass"):
        await create(Quota(Objects(quota(hard, dict.fromkeys(hard, "0")))), claim("c", alternatives))


async def test_new_quota_counts_what_is_there() -> None:
    objects = Objects(quota({"configmaps": "3", CLAIMS: "1"}), config_map("a"), config_map("b"))
    assert charged(await create(Quota(objects), config_map("c"))) == {"configmaps": "3"}
    objects.put(config_map("c"))
    with pytest.raises(Forbidden, match="requested: configmaps=1, used: configmaps=3, limited: configmaps=3"):
        await create(Quota(objects), config_map("d"))


async def test_all_quotas_of_the_namespace_must_agree() -> None:
    objects = Objects(
        quota({"pods": "5"}, {"pods": "0"}, "wide"), quota({"count/pods": "1"}, {"count/pods": "1"}, "narrow")
    )
    with pytest.raises(Forbidden, match="exceeded quota: narrow, requested: count/pods=1"):
        await create(Quota(objects), pod("p"))


@pytest.mark.parametrize("full", ["a", "b"])
async def test_one_full_quota_refuses_whichever_comes_first(full: str) -> None:
    objects = Objects(*(quota({"pods": "5"}, {"pods": "5" if name == full else "0"}, name) for name in "ab"))
    with pytest.raises(Forbidden, match=f"exceeded quota: {full}, requested: pods=1"):
        await create(Quota(objects), pod("p"))


async def test_each_quota_of_the_namespace_is_charged() -> None:
    asked = await create(Quota(Objects(*(quota({"pods": "5"}, {"pods": "0"}, name) for name in "ab"))), pod("p"))
    assert [(write.name, write.tree["status"]["used"]) for write in asked.writes] == [
        ("a", {"pods": "1"}),
        ("b", {"pods": "1"}),
    ]
    await asked.release()


async def test_a_charge_leaves_what_else_is_used() -> None:
    asked = await create(Quota(Objects(quota({"pods": "5", CLAIMS: "5"}, {"pods": "4", CLAIMS: "0"}))), claim("c"))
    assert charged(asked) == {"pods": "4", CLAIMS: "1"}
    await asked.release()


async def test_compute_resources() -> None:
    hard = {"requests.cpu": "1", "limits.memory": "1Gi"}
    objects = Objects(quota(hard, {"requests.cpu": "250m", "limits.memory": "0"}))
    resources = {"requests": {"cpu": "500m"}, "limits": {"memory": "256Mi"}}
    containers = [{"name": "c", "image": "app", "resources": resources}]
    init = [{"name": "i", "image": "app", "resources": {"requests": {"cpu": "700m"}, "limits": {"memory": "1Mi"}}}]
    asked = await create(Quota(objects), pod("p", containers=containers, initContainers=init))
    assert charged(asked) == {"requests.cpu": "950m", "limits.memory": "256Mi"}
    with pytest.raises(Forbidden, match=r"requested: requests.cpu=1, used: requests.cpu=250m, limited: requests.cpu=1"):
        await create(Quota(objects), pod("p", containers=[*containers, {**containers[0], "name": "d"}]))


async def test_limited_compute_resources_must_be_stated() -> None:
    objects = Objects(quota({"limits.cpu": "1", "memory": "1Gi"}, {"limits.cpu": "0", "memory": "0"}))
    with pytest.raises(Forbidden) as caught:
        await create(Quota(objects), pod("p"))
    assert caught.value.message == (
        'pods "p" is forbidden: failed quota: q: must specify limits.cpu for: c; memory for: c'
    )


@pytest.mark.parametrize(
    ("scope", "counted"),
    [
        ({"scopes": ["BestEffort"]}, True),
        ({"scopes": ["NotBestEffort"]}, False),
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["BestEffort", "NotTerminating"]}, True),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]
                }
            },
            True,
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["a"]}]
                }
            },
            False,
        ),
    ],
)
async def test_scopes_select_pods(scope: dict[str, Any], counted: bool) -> None:
    objects = Objects(quota({"pods": "0"}, {"pods": "0"}, **scope))
    tree = pod("p", priorityClassName="a")
    if not counted:
        assert (await create(Quota(objects), tree)).writes == []
        return
    with pytest.raises(Forbidden):
        await create(Quota(objects), tree)


async def test_only_new_objects_are_charged() -> None:
    plugin = Quota(Objects(quota({"pods": "0", "configmaps": "0"}, {"pods": "0", "configmaps": "0"})))
    await update(plugin, pod("p"), pod("p"))
    binding = about("CREATE", pod("p"), subresource="binding")
    await Chain([plugin]).validate(binding)
    elsewhere = pod("p", "other")
    assert (await create(plugin, elsewhere)).writes == []


async def test_dry_run_is_checked_and_not_charged() -> None:
    plugin = Quota(Objects(quota({"pods": "1"}, {"pods": "0"})))
    assert (await create(plugin, pod("p"), dry_run=True)).writes == []
    with pytest.raises(Forbidden):
        await create(Quota(Objects(quota({"pods": "0"}, {"pods": "0"}))), pod("p"), dry_run=True)


async def test_refused_request_leaves_its_turn_to_the_next() -> None:
    chain = Chain([Quota(Objects(quota({"pods": "0"}, {"pods": "0"})))])
    for _ in range(2):
        with pytest.raises(Forbidden):
            await within(chain.validate(about("CREATE", pod("p"))))


# With a real store


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    cache = await Cache.open(MemoryLog(), decode)
    yield Storage(cache)
    await cache.close()


async def put(storage: Storage, tree: dict[str, Any]) -> None:
    asked = about("CREATE", tree)
    key = asked.resource.key(asked.namespace, asked.name)
    await storage.cache.commit([written(key, to_object(asked.resource, tree), expected=None)])


async def store(storage: Storage, chain: Chain, tree: dict[str, Any]) -> bool:
    """Create an object as the registry does; whether it was admitted."""
    asked = about("CREATE", tree)
    try:
        await chain.validate(asked)
    except Forbidden:
        return False
    assert asked.object is not None
    key = asked.resource.key(asked.namespace, asked.name)
    await Commits(storage.cache, chain).write(asked, key, asked.object, expected=0)
    return True


def used(storage: Storage) -> str:
    found = one(storage, ResourceQuota, "default", "q")
    assert found
    return found.status.used["configmaps"]


async def test_concurrent_creations_never_exceed_the_limit(storage: Storage) -> None:
    await put(storage, quota({"configmaps": "10"}))
    servers = [Chain([Quota(storage)]) for _ in range(3)]  # as many servers on one store
    outcomes = await asyncio.gather(
        *(store(storage, servers[number % 3], config_map(f"m{number}")) for number in range(60))
    )
    assert sum(outcomes) == 10
    assert len(list(many(storage, ConfigMap, "default"))) == 10
    assert used(storage) == "10"


async def test_charge_survives_a_quota_that_changes_meanwhile(storage: Storage) -> None:
    await put(storage, quota({"configmaps": "2"}, {"configmaps": "0"}))
    chain = Chain([Quota(storage)])
    asked = about("CREATE", config_map("a"))
    await chain.validate(asked)
    await put(storage, quota({"configmaps": "2"}, {"configmaps": "1"}))  # another server was faster
    assert asked.object is not None
    await Commits(storage.cache, chain).write(asked, "configmaps/default/a", asked.object, expected=0)
    assert used(storage) == "2"
    assert not await store(storage, chain, config_map("b"))


async def test_creation_fails_when_somebody_else_took_the_rest(storage: Storage) -> None:
    await put(storage, quota({"configmaps": "1"}, {"configmaps": "0"}))
    chain = Chain([Quota(storage)])
    asked = about("CREATE", config_map("a"))
    await chain.validate(asked)
    await put(storage, quota({"configmaps": "1"}, {"configmaps": "1"}))
    assert asked.object is not None
    with pytest.raises(Forbidden, match="exceeded quota"):
        await Commits(storage.cache, chain).write(asked, "configmaps/default/a", asked.object, expected=0)
    assert storage.get(BY_TYPE[ConfigMap], "default", "a") is None
    assert not await within(store(storage, chain, config_map("b")))
