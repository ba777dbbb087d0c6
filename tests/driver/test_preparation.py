"""Preparing and unpreparing as the node agent asks for it: again, at once, after restarts and reboots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from dray.api.types.resource import ResourceClaim
from dray.client import Client
from dray.driver import (
    AllocatedClaim,
    AllocatedDevice,
    ClaimReference,
    Edits,
    Pool,
    Pools,
    PreparedDevice,
    PrepareError,
    device,
)
from dray.driver.cdi import CdiDirectory
from dray.driver.metadata import MetadataFiles
from dray.driver.preparation import ClaimNotFound, Preparation
from dray.driver.prepared import PreparedClaims
from tests.driver.conftest import NODE
from tests.driver.places import Places, allocated_claim, background
from tests.waiting import eventually, within

DRIVER = "gpu.example.com"
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Scripted:
    """A driver that remembers what it was asked, and does what a test says."""

    name = DRIVER

    def __init__(self) -> None:
        self.names = ["gpu-0", "gpu-1", "gpu-2"]
        self.prepared: list[str] = []
        self.unprepared: list[str] = []
        self.failure: Exception | None = None
        self.hold: asyncio.Event | None = None
        self.at_once = 0
        self.most_at_once = 0
        self.answer: Callable[[AllocatedClaim], list[PreparedDevice]] = lambda claim: [
            PreparedDevice(one, Edits(env={"D": one.name})) for one in claim.devices
        ]

    async def devices(self) -> Pools:
        return {NODE: Pool([device(name) for name in self.names])}

    async def prepare(self, claim: AllocatedClaim) -> list[PreparedDevice]:
        self.prepared.append(claim.reference.name)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            if self.hold is not None:
                await self.hold.wait()
            if self.failure is not None:
                raise self.failure
            return self.answer(claim)
        finally:
            self.at_once -= 1

    async def unprepare(self, claim: ClaimReference) -> None:
        self.unprepared.append(claim.name)
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def driver() -> Scripted:
    return Scripted()


def fresh(driver: Scripted, client: Client, places: Places) -> Preparation:
    """What a newly started process has."""
    metadata = MetadataFiles(places.root, places.cdi, DRIVER)
    return Preparation(
        driver, client, PreparedClaims(places.root / "claims"), CdiDirectory(places.cdi, DRIVER), metadata
    )


@pytest.fixture
def preparation(driver: Scripted, client: Client, places: Places) -> Preparation:
    return fresh(driver, client, places)


def reference(claim: ResourceClaim) -> ClaimReference:
    return ClaimReference(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)


async def outcome(preparation: Preparation, claim: ClaimReference) -> object:
    return (await preparation.prepare([claim]))[claim.uid]


async def test_a_prepared_claim_is_answered_without_asking_the_driver_or_the_server_again(
    preparation: Preparation, driver: Scripted, client: Client
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    first = await outcome(preparation, claim)
    await client.delete(ResourceClaim, "c", "default")
    assert await outcome(preparation, claim) == first
    assert driver.prepared == ["c"]


async def test_errors_concern_their_claim_alone(preparation: Preparation, client: Client) -> None:
    good = reference(await allocated_claim(client, "good", ["gpu-0"]))
    missing = ClaimReference("default", "missing", "0000")
    replaced = ClaimReference("default", "good", "1111")
    await client.create(
        ResourceClaim,
        {"metadata": {"name": "waiting", "namespace": "default"}, "spec": {"devices": {"requests": []}}},
    )
    waiting = reference(await client.get(ResourceClaim, "waiting", "default"))
    strange = ClaimReference("default", "good", "../../etc")
    answers = await preparation.prepare([good, missing, replaced, waiting, strange])
    assert isinstance(answers[good.uid], tuple)
    assert isinstance(answers[missing.uid], ClaimNotFound)
    assert isinstance(answers[replaced.uid], ClaimNotFound)
    assert "not allocated" in str(answers[waiting.uid])
    assert "not the uid" in str(answers[strange.uid])


async def test_a_device_that_is_gone_is_refused_until_it_is_back(
    preparation: Preparation, driver: Scripted, client: Client
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    driver.names.remove("gpu-1")
    assert "gpu-1" in str(await outcome(preparation, claim))
    assert driver.prepared == []
    driver.names.append("gpu-1")
    assert isinstance(await outcome(preparation, claim), tuple)


async def test_calls_for_one_claim_take_turns_and_the_driver_is_asked_once(
    preparation: Preparation, driver: Scripted, client: Client
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    outcomes = await asyncio.gather(*(outcome(preparation, claim) for _ in range(10)))
    assert driver.prepared == ["c"]
    assert len(set(map(str, outcomes))) == 1


async def test_different_claims_are_prepared_at_once(
    preparation: Preparation, driver: Scripted, client: Client
) -> None:
    claims = [reference(await allocated_claim(client, f"c{n}", [f"gpu-{n}"])) for n in range(3)]
    driver.hold = asyncio.Event()
    call = asyncio.ensure_future(preparation.prepare(claims))
    await eventually(lambda: driver.at_once == 3)
    driver.hold.set()
    assert all(isinstance(answer, tuple) for answer in (await call).values())


async def test_a_call_that_was_given_up_is_finished_and_the_next_finds_the_answer(
    preparation: Preparation, driver: Scripted, client: Client
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    driver.hold = asyncio.Event()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(preparation.prepare([claim]), 0.05)
    again = asyncio.ensure_future(preparation.prepare([claim]))
    await asyncio.sleep(0.01)
    driver.hold.set()
    assert isinstance((await again)[claim.uid], tuple)
    assert driver.prepared == ["c"]


async def test_the_driver_says_why_it_cannot_and_is_asked_again(
    preparation: Preparation, driver: Scripted, client: Client
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    for failure in (PrepareError("no more memory"), ValueError("a bug"), OSError("no space")):
        driver.failure = failure
        assert str(failure) in str(await outcome(preparation, claim))
    driver.failure = None
    assert isinstance(await outcome(preparation, claim), tuple)
    assert len(driver.prepared) == 4


async def test_a_driver_that_forgets_or_invents_devices_is_told(
    preparation: Preparation, driver: Scripted, client: Client, places: Places
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1", "gpu-2"]))
    driver.answer = lambda claim: [PreparedDevice(claim.devices[0])]
    assert "did not prepare gpu-2" in str(await outcome(preparation, claim))
    stranger = PreparedDevice(AllocatedDevice("r", NODE, "gpu-9"))
    driver.answer = lambda claim: [*map(PreparedDevice, claim.devices), stranger]
    assert "gpu-9, which the claim does not have" in str(await outcome(preparation, claim))
    driver.answer = lambda claim: [PreparedDevice(one, Edits(env={"": "x"})) for one in claim.devices]
    assert "env" in str(await outcome(preparation, claim))
    assert places.specs() == []


async def test_devices_without_edits_and_with_ids_of_their_own_are_fine(
    preparation: Preparation, driver: Scripted, client: Client, places: Places
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1", "gpu-2"]))
    driver.answer = lambda claim: [
        PreparedDevice(claim.devices[0]),
        PreparedDevice(claim.devices[1], cdi_ids=("v.com/c=d",)),
    ]
    answers = await outcome(preparation, claim)
    assert [one.cdi_ids for one in answers] == [(), ("v.com/c=d",)]  # type: ignore[attr-defined]
    assert places.specs() == []


async def test_unprepare_is_asked_of_the_driver_once_and_succeeds_always(
    preparation: Preparation, driver: Scripted, client: Client, places: Places
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    never = ClaimReference("default", "never", "0000")
    await preparation.prepare([claim])
    for _ in range(2):
        assert await preparation.unprepare([claim, never]) == {claim.uid: None, never.uid: None}
    assert driver.unprepared == ["c"]
    assert places.specs() == []
    assert [*(places.root / "claims").iterdir()] == []


async def test_an_unprepare_that_fails_is_tried_again(
    preparation: Preparation, driver: Scripted, client: Client
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    await preparation.prepare([claim])
    driver.failure = PrepareError("busy")
    assert str((await preparation.unprepare([claim]))[claim.uid]) == "busy"
    driver.failure = None
    assert await preparation.unprepare([claim]) == {claim.uid: None}
    assert driver.unprepared == ["c", "c"]


async def test_a_prepare_that_failed_half_way_is_unprepared_too(
    preparation: Preparation, driver: Scripted, client: Client
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    driver.failure = PrepareError("half-way")
    await preparation.prepare([claim])
    driver.failure = None
    await preparation.unprepare([claim])
    assert driver.unprepared == ["c"]


async def test_a_restart_remembers(driver: Scripted, client: Client, places: Places) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    before = await outcome(fresh(driver, client, places), claim)
    assert await outcome(fresh(driver, client, places), claim) == before
    assert driver.prepared == ["c"]
    await client.delete(ResourceClaim, "c", "default")
    assert await fresh(driver, client, places).unprepare([claim]) == {claim.uid: None}
    assert driver.unprepared == ["c"]


@pytest.mark.parametrize("lost", ["CDI spec", "boot", "entry is unreadable"])
async def test_what_a_reboot_or_a_lost_file_undoes_is_prepared_again(
    driver: Scripted, client: Client, places: Places, lost: str
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    before = await outcome(fresh(driver, client, places), claim)
    entry = places.root / "claims" / f"{claim.uid}.json"
    if lost == "CDI spec":
        for path in places.cdi.iterdir():
            path.unlink()
    elif lost == "boot":
        entry.write_text(entry.read_text().replace(BOOT, "earlier"))
    else:
        entry.write_text("{")
    assert await outcome(fresh(driver, client, places), claim) == before
    assert driver.prepared == ["c", "c"]
    assert len(places.specs()) == 1


async def test_leftovers_of_claims_that_vanished_are_cleaned_at_start(
    driver: Scripted, client: Client, places: Places
) -> None:
    kept = reference(await allocated_claim(client, "kept", ["gpu-0"]))
    gone = reference(await allocated_claim(client, "gone", ["gpu-1"]))
    replaced = reference(await allocated_claim(client, "replaced", ["gpu-2"]))
    await fresh(driver, client, places).prepare([kept, gone, replaced])
    for name in ("gone", "replaced"):
        await client.delete(ResourceClaim, name, "default")
    await allocated_claim(client, "replaced", ["gpu-2"])
    (places.cdi / f"k8s.{DRIVER}-claim_nobody.json").write_text("{}")
    restarted = fresh(driver, client, places)
    restarted.clean_specs()
    await restarted.clean()
    assert sorted(driver.unprepared) == ["gone", "replaced"]
    assert [kept.uid in name for name in places.specs()] == [True]
    assert isinstance(await outcome(restarted, kept), tuple)


async def test_cleaning_waits_for_a_driver_that_cannot_yet(driver: Scripted, client: Client, places: Places) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-0"]))
    await fresh(driver, client, places).prepare([claim])
    await client.delete(ResourceClaim, "c", "default")
    driver.failure = PrepareError("busy")
    async with background(fresh(driver, client, places).clean()) as cleaning:
        await eventually(lambda: len(driver.unprepared) > 1)
        driver.failure = None
        await within(cleaning)
    assert places.specs() == []


async def test_closing_waits_a_while_for_what_is_under_way(
    preparation: Preparation, driver: Scripted, client: Client
) -> None:
    claim = reference(await allocated_claim(client, "c", ["gpu-1"]))
    driver.hold = asyncio.Event()
    call = asyncio.ensure_future(preparation.prepare([claim]))
    await eventually(lambda: driver.at_once == 1)
    asyncio.get_running_loop().call_later(0.05, driver.hold.set)
    await preparation.aclose(5)
    assert isinstance((await call)[claim.uid], tuple)
    other = reference(await allocated_claim(client, "other", ["gpu-2"]))
    driver.hold = asyncio.Event()
    call = asyncio.ensure_future(preparation.prepare([other]))
    await eventually(lambda: driver.at_once == 1)
    await preparation.aclose(0.01)
    with pytest.raises(asyncio.CancelledError):
        await call
