"""Which pods use a claim, found through every kind of reference."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from dray.api.types.core import Pod
from dray.api.types.scheduling import PodGroup
from dray.client import SharedInformers
from dray.client.consumers import ClaimConsumers
from tests.waiting import eventually
from tests.workloads.cluster import Cluster


@pytest.fixture
async def idle() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.open(parts=())
    yield cluster
    await cluster.close()


@pytest.fixture
async def informers(idle: Cluster) -> AsyncIterator[SharedInformers]:
    informers = SharedInformers(idle.client)
    yield informers
    await informers.stop()


async def started(informers: SharedInformers, *, groups: bool = True) -> ClaimConsumers:
    consumers = ClaimConsumers(informers, groups=groups)
    await informers.start()
    await informers.synced()
    return consumers


def users(consumers: ClaimConsumers, claim: str = "c") -> list[str]:
    return sorted(pod.metadata.name for pod in consumers.consumers("ns", claim))


async def record(idle: Cluster, pod: str, claim: str) -> None:
    patch = {"status": {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": claim}]}}
    await idle.client.patch(Pod, pod, patch, "ns", subresource="status")


async def test_pods_are_found_by_the_name_they_give(idle: Cluster, informers: SharedInformers) -> None:
    await idle.pod("a", x="c")
    await idle.pod("b", x="other")
    await idle.pod("both", x="c", y="c")
    assert users(await started(informers)) == ["a", "both"]


async def test_pods_are_found_by_the_name_in_their_status(idle: Cluster, informers: SharedInformers) -> None:
    await idle.pod("a", x="t:t")
    await idle.pod("b", "g", x="g:claim")
    consumers = await started(informers)
    assert users(consumers) == []
    for name in ("a", "b"):
        await record(idle, name, "c")

    async def found() -> bool:
        return users(consumers) == ["a", "b"]

    await eventually(found)


async def test_pods_are_found_through_the_group_that_names_the_claim(idle: Cluster, informers: SharedInformers) -> None:
    await idle.pod("user", "g", x="g:claim")
    await idle.pod("as-upstream", "g", seed=False, claim="c")
    await idle.pod("member", "g")
    await idle.pod("stranger", "other", x="g:claim")
    consumers = await started(informers)
    assert users(consumers) == ["as-upstream"]
    await idle.group("g", claim="c")

    async def found() -> bool:
        return users(consumers) == ["as-upstream", "user"]

    await eventually(found)
    assert sorted(p.metadata.name for p in consumers.members("ns", "g")) == ["as-upstream", "member", "user"]


async def test_a_group_that_is_gone_has_members_but_names_nothing(idle: Cluster, informers: SharedInformers) -> None:
    await idle.group("g", claim="c")
    pod = await idle.pod("user", "g", x="g:claim")
    consumers = await started(informers)
    assert consumers.group_of(pod) is not None
    await idle.client.patch(PodGroup, "g", {"metadata": {"finalizers": None}}, "ns")
    await idle.client.delete(PodGroup, "g", "ns")

    async def lost() -> bool:
        return consumers.group_of(pod) is None

    await eventually(lost)
    assert users(consumers) == []
    assert [p.metadata.name for p in consumers.members("ns", "g")] == ["user"]


async def test_without_groups_only_what_pods_say_counts(idle: Cluster, informers: SharedInformers) -> None:
    await idle.group("g", claim="c")
    pod = await idle.pod("user", "g", x="g:claim")
    consumers = await started(informers, groups=False)
    assert consumers.group_of(pod) is None
    assert users(consumers) == []
    assert consumers.members("ns", "g") == []
