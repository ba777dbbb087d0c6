"""Leader election on a real server, with time turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from dray.api.errors import ServiceUnavailable
from dray.api.types.coordination import Lease
from dray.api.types.core import Namespace
from dray.api.users import ADMIN
from dray.apiserver.assembly import Running, ServerSettings
from dray.client import (
    Client,
    InProcess,
    LeaderElection,
    LeaseExpired,
    LeaseSettings,
    LostLeadership,
    ManualClock,
)
from dray.client.clock import settle
from tests.permissions import allow, rule, user_client


class Flaky:
    """A client whose server can be cut off."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        if self.cut:
            raise ServiceUnavailable("cut off")
        return getattr(self._client, name)


class Late:
    """A client whose first lease is written at once, while the answer takes nine seconds."""

    def __init__(self, client: Client, clock: ManualClock) -> None:
        self._client = client
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def create(self, *arguments: Any, **options: Any) -> Any:
        made = await self._client.create(*arguments, **options)
        await self._clock.sleep(9)
        return made


class Distant:
    """A client to which the answers of the server travel for a second."""

    def __init__(self, client: Client, clock: ManualClock) -> None:
        self._client = client
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, *arguments: Any, **options: Any) -> Any:
        found = await self._client.get(*arguments, **options)
        await self._clock.sleep(1)
        return found


class Candidate:
    """One process that wants to lead."""

    def __init__(self, client: Client, name: str, clock: ManualClock) -> None:
        self.client = Flaky(client)
        self.election = LeaderElection(self.client, "lock", name, clock=clock)  # type: ignore[arg-type]
        self.working = False
        self.task = asyncio.create_task(self.election.run(self._work))

    async def _work(self) -> None:
        self.working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.working = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
async def namespace(near: Client) -> None:
    await near.create(Namespace, {"metadata": {"name": "kube-system"}})


async def lease(client: Client) -> Lease:
    return await client.get(Lease, "lock", "kube-system")


async def test_the_first_leads_and_the_second_waits(near: Client, clock: ManualClock) -> None:
    a, b = Candidate(near, "a", clock), Candidate(near, "b", clock)
    await clock.advance(60)
    assert [a.working, b.working] == [True, False]
    assert b.election.leader == "a"
    spec = (await lease(near)).spec
    assert (spec.holderIdentity, spec.leaseDurationSeconds, spec.leaseTransitions) == ("a", 15, 0)
    assert spec.acquireTime < spec.renewTime
    await a.stop()
    await b.stop()


async def test_a_leader_that_stops_hands_over_at_once(near: Client, clock: ManualClock) -> None:
    a, b = Candidate(near, "a", clock), Candidate(near, "b", clock)
    await clock.advance(5)
    await a.stop()
    assert not a.working
    assert (await lease(near)).spec.holderIdentity is None
    await clock.advance(2.1)
    assert b.working
    spec = (await lease(near)).spec
    assert (spec.holderIdentity, spec.leaseTransitions) == ("b", 1)
    await b.stop()


async def test_a_leader_that_is_cut_off_stops_before_another_starts(near: Client, clock: ManualClock) -> None:
    a, b = Candidate(near, "a", clock), Candidate(near, "b", clock)
    await clock.advance(5)
    a.client.cut = True
    both, nobody = 0, 0
    for _ in range(200):
        await clock.advance(0.1)
        both += a.working and b.working
        nobody += not a.working and not b.working
    assert both == 0
    assert nobody > 0
    assert b.working
    with pytest.raises(LostLeadership, match="was not renewed for 10 s"):
        await a.task
    await b.stop()


async def test_a_lease_counts_from_before_it_was_written(near: Client, clock: ManualClock) -> None:
    a = Candidate(Late(near, clock), "a", clock)  # type: ignore[arg-type]
    await clock.advance(0.1)
    b = Candidate(near, "b", clock)
    await clock.advance(8)
    a.client.cut = True
    await clock.advance(1)
    assert a.working
    await clock.advance(1)
    assert not a.working
    with pytest.raises(LostLeadership, match="was not renewed for 10 s"):
        await a.task
    assert not b.working
    await clock.advance(8)
    assert b.working
    await b.stop()


async def test_a_late_answer_does_not_cost_the_lead(near: Client, clock: ManualClock) -> None:
    a = Candidate(Late(near, clock), "a", clock)  # type: ignore[arg-type]
    await clock.advance(60)
    assert a.working
    await a.stop()


async def test_a_short_outage_does_not_cost_the_lead(near: Client, clock: ManualClock) -> None:
    a = Candidate(near, "a", clock)
    await clock.advance(5)
    a.client.cut = True
    await clock.advance(6)
    a.client.cut = False
    await clock.advance(30)
    assert a.working
    await a.stop()


async def test_a_stolen_lease_ends_the_lead(near: Client, clock: ManualClock) -> None:
    a = Candidate(near, "a", clock)
    await clock.advance(5)
    await near.patch(Lease, "lock", {"spec": {"holderIdentity": "thief"}}, "kube-system")
    await clock.advance(5)
    with pytest.raises(LostLeadership, match="held by thief"):
        await a.task
    assert not a.working
    assert (await lease(near)).spec.holderIdentity == "thief"


async def test_a_dead_leader_is_replaced_after_its_lease(near: Client, clock: ManualClock) -> None:
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
    await near.create(Lease, {"metadata": {"name": "lock"}, "spec": spec}, namespace="kube-system")
    b = Candidate(near, "b", clock)
    await clock.advance(14)  # whatever renewTime says: clocks need not agree
    assert not b.working
    await clock.advance(3)
    assert b.working
    await b.stop()


async def test_two_that_start_together_get_one_leader(near: Client, clock: ManualClock) -> None:
    candidates = [Candidate(near, str(n), clock) for n in range(5)]
    await clock.advance(1)
    assert sum(c.working for c in candidates) == 1
    for candidate in candidates:
        await candidate.stop()


async def test_two_that_see_a_lease_expire_together_get_one_leader(near: Client, clock: ManualClock) -> None:
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15}
    await near.create(Lease, {"metadata": {"name": "lock"}, "spec": spec}, namespace="kube-system")
    candidates = [Candidate(Distant(near, clock), name, clock) for name in ("a", "b")]  # type: ignore[arg-type]
    leaders = 0
    for _ in range(60):
        await clock.advance(0.5)
        leaders = max(leaders, sum(candidate.working for candidate in candidates))
    assert leaders == 1
    spec_now = (await lease(near)).spec
    assert spec_now.leaseTransitions == 1
    assert [c.election.identity for c in candidates if c.working] == [spec_now.holderIdentity]
    for candidate in candidates:
        await candidate.stop()


async def test_work_that_ends_releases_the_lease_and_its_error_is_raised(near: Client, clock: ManualClock) -> None:
    async def work() -> None:
        raise ValueError("broken")

    election = LeaderElection(near, "lock", "a", clock=clock)
    with pytest.raises(ValueError, match="broken"):
        await election.run(work)
    await settle()
    assert (await lease(near)).spec.holderIdentity is None


async def test_a_leader_whose_machine_slept_may_not_write_and_stops(near: Client, clock: ManualClock) -> None:
    a = Candidate(near, "a", clock)
    await clock.advance(5)
    a.election.require_lead()
    clock.suspend(9)
    with pytest.raises(LeaseExpired, match="a may not lead lock any more"):
        a.election.require_lead()
    await clock.advance(2)
    with pytest.raises(LostLeadership, match="was not renewed for 10 s"):
        await a.task
    assert not a.working


async def test_a_leader_that_stood_still_does_not_renew_as_if_nothing_had_happened(
    near: Client, clock: ManualClock
) -> None:
    """Another process may have led meanwhile and given the lease back."""
    a = Candidate(near, "a", clock)
    await clock.advance(5)
    clock._now += 30  # no timer of the process ran
    with pytest.raises(LeaseExpired):
        a.election.require_lead()
    await clock.advance(0.1)
    with pytest.raises(LostLeadership):
        await a.task


async def test_nobody_but_the_leader_may_write(near: Client, clock: ManualClock) -> None:
    a, b = Candidate(near, "a", clock), Candidate(near, "b", clock)
    await clock.advance(5)
    a.election.require_lead()
    with pytest.raises(LeaseExpired):
        b.election.require_lead()
    await a.stop()
    with pytest.raises(LeaseExpired):
        a.election.require_lead()
    await b.stop()


async def test_who_leads_is_counted_and_logged(
    near: Client, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "dray.client.leader")
    a = Candidate(near, "a", clock)
    await clock.advance(1)
    b = Candidate(near, "b", clock)
    await clock.advance(1)
    assert caplog.messages == ["lock: this process leads", "lock: a leads"]
    assert REGISTRY.get_sample_value("leader_election_master_status", {"name": "lock"}) == 1
    await a.stop()
    assert REGISTRY.get_sample_value("leader_election_master_status", {"name": "lock"}) == 0
    await clock.advance(3)
    assert caplog.messages[2:] == ["lock: this process leads"]
    await b.stop()


async def test_two_leases_do_not_block_each_other_and_the_times_are_those_that_were_set(
    near: Client, clock: ManualClock
) -> None:
    await near.create(Namespace, {"metadata": {"name": "team"}})
    chosen = LeaseSettings("other", "team", duration=40, renew_deadline=30, retry_period=5)
    first, second = (LeaderElection(near, one, "a", clock=clock) for one in (LeaseSettings("lock"), chosen))
    tasks = [asyncio.create_task(one.run(asyncio.Event().wait)) for one in (first, second)]  # type: ignore[arg-type]
    await clock.advance(1)
    spec = (await near.get(Lease, "other", "team")).spec
    assert (spec.holderIdentity, spec.leaseDurationSeconds) == ("a", 40)
    assert (await lease(near)).spec.holderIdentity == "a"
    renewed = spec.renewTime
    await clock.advance(3.9)
    assert (await near.get(Lease, "other", "team")).spec.renewTime == renewed
    await clock.advance(0.2)
    assert (await near.get(Lease, "other", "team")).spec.renewTime != renewed
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 10, 10), (15, 10, 0), (0.9, 0.5, 0.1)])
def test_times_with_which_two_could_lead_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="leaseDuration must be"):
        LeaseSettings("lock", "ns", *times)


@pytest.fixture
async def guarded() -> AsyncIterator[Running]:
    """A server on which everybody may do only what roles grant."""
    running = await Running.open(ServerSettings(disabled_plugins=("ServiceAccount",)))
    yield running
    await running.close()


async def test_the_verbs_get_create_and_update_are_enough(guarded: Running, clock: ManualClock) -> None:
    admin = InProcess(guarded.api, ADMIN)
    await allow(admin, "u", rule("coordination.k8s.io", "leases", verbs=("get", "create", "update")))
    a = Candidate(user_client(guarded, "u"), "a", clock)
    await clock.advance(10)
    assert a.working
    assert (await lease(admin)).spec.renewTime > (await lease(admin)).spec.acquireTime
    await a.stop()
    assert (await lease(admin)).spec.holderIdentity is None


@pytest.mark.parametrize("verb", ["get", "create", "update"])
async def test_a_missing_verb_is_reported_once_and_granting_it_helps(
    guarded: Running, clock: ManualClock, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    admin = InProcess(guarded.api, ADMIN)
    verbs = ("get", "create", "update")
    await allow(admin, "u", rule("coordination.k8s.io", "leases", verbs=[v for v in verbs if v != verb]))
    if verb == "update":
        await admin.create(Lease, {"metadata": {"name": "lock"}, "spec": {}}, namespace="kube-system")
    a = Candidate(user_client(guarded, "u"), "a", clock)
    await clock.advance(10)
    assert not a.working
    assert not a.election.answered.is_set()
    assert "the lease kube-system/lock cannot be used" in a.election.problem
    assert f'cannot {verb} resource "leases"' in a.election.problem
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [a.election.problem]
    await allow(admin, "u", rule("coordination.k8s.io", "leases", verbs=verbs))
    await clock.advance(3)
    assert (a.working, a.election.problem) == (True, "")
    await a.stop()
