"""Requirements for NodePrepareResources: what must succeed and what must be refused."""

from __future__ import annotations

import asyncio
import uuid

from dray.driverkit import kubelet
from dray.driverkit.kubelet import Reference
from dray.driverkit.setting import CheckFailed, Setting, Skipped

_RESULTS_MAX = 32  # limit of devices in one claim
_PARALLEL = 8
_FOREIGN = "other.example.com"


async def prepares_a_claim(setting: Setting) -> None:
    """The driver prepares an allocated claim when NodePrepareResources is called."""
    await setting.prepared(await setting.claim())


async def names_the_devices(setting: Setting) -> None:
    """The answer to NodePrepareResources names request, pool and device of the allocation, and no others."""
    claim = await setting.claim(count=2)
    assert claim.status.allocation is not None
    results = claim.status.allocation.devices.results
    devices = await setting.prepared(claim)
    expected = {(one.pool, one.device): one.request for one in results}
    for one in devices:
        request = expected.get((one["pool"], one["device"]))
        if request is None:
            raise CheckFailed(f"device {one['device']} of pool {one['pool']} was not allocated; expected {[*expected]}")
        if one["requests"] and request not in one["requests"]:
            raise CheckFailed(f"device {one['device']} belongs to request {request}, not to {one['requests']}")
    missing = expected.keys() - {(one["pool"], one["device"]) for one in devices}
    if missing:
        raise CheckFailed(f"the answer lacks {sorted(missing)}")


async def writes_cdi_specs(setting: Setting) -> None:
    """A valid CDI spec describes every CDI id in the answer at the time of the answer."""
    devices = await setting.prepared(await setting.claim())
    ids = [id_ for one in devices for id_ in one["cdi"]]
    problem = setting.unresolved(ids)
    if problem:
        raise CheckFailed(f"a container runtime cannot use {ids}: {problem}")


async def prepares_twice_the_same(setting: Setting) -> None:
    """Preparing a prepared claim again succeeds with the same devices."""
    claim = await setting.claim()
    first = await setting.prepared(claim)
    try:
        again = await setting.prepared(claim)
    except CheckFailed as error:
        raise CheckFailed(f"the second call: {error}") from error
    if again != first:
        raise CheckFailed(f"the second call answered {again}, the first {first}")


async def answers_for_every_claim(setting: Setting) -> None:
    """The answer to a call with several claims has an entry for each claim, and an error affects only its own claim."""
    good = [await setting.claim(), await setting.claim()]
    bad = Reference("default", "driver-test-unknown", str(uuid.uuid4()))
    answers = await setting.call_prepare(*map(Reference.to, good), bad)
    for claim in good:
        answer = answers.get(claim.metadata.uid)
        if answer is None:
            raise CheckFailed(
                f"3 claims were asked for, the answer has {len(answers)}: {claim.metadata.name} is missing"
            )
        if answer.error:
            raise CheckFailed(f"a claim failed because of its neighbour: {answer.error}")
    if bad.uid not in answers:
        raise CheckFailed("the claim that does not exist is missing from the answer; expected an error for it")
    undone = await setting.call_unprepare(*map(Reference.to, good))
    if undone.keys() != {claim.metadata.uid for claim in good}:
        raise CheckFailed(f"2 claims were to be unprepared, the answer has {len(undone)}")


async def refuses_unknown_claims(setting: Setting) -> None:
    """The driver refuses to prepare a claim that does not exist."""
    reference = Reference("default", "driver-test-unknown", str(uuid.uuid4()))
    await setting.refused(reference, "a claim that does not exist")


async def checks_the_uid(setting: Setting) -> None:
    """The driver refuses to prepare a claim that was replaced by another claim with the same name."""
    claim = await setting.claim()
    await setting.refused(Reference.to(claim, str(uuid.uuid4())), "a claim with another uid")


async def refuses_unallocated_claims(setting: Setting) -> None:
    """The driver refuses to prepare a claim that is not allocated."""
    claim = await setting.unallocated_claim()
    await setting.refused(Reference.to(claim), "a claim without allocation")


async def refuses_devices_that_are_gone(setting: Setting) -> None:
    """The driver refuses to prepare a device that does not exist (any more)."""
    [(pool, _)] = await setting.devices()
    claim = await setting.claim(devices=[(pool, "driver-test-gone")])
    await setting.refused(Reference.to(claim), "a device that is not there")


async def ignores_other_drivers(setting: Setting) -> None:
    """The driver ignores devices and configuration of other drivers in the same claim."""
    other = {"request": "other", "driver": _FOREIGN, "pool": "p", "device": "d"}
    opaque = {"driver": _FOREIGN, "parameters": {"unheard": "of"}}
    config = [{"source": source, "opaque": opaque} for source in ("FromClass", "FromClaim")]
    devices = await setting.prepared(await setting.claim(others=[other], config=config))
    if len(devices) != 1 or devices[0]["device"] == "d":
        raise CheckFailed(f"expected one device, its own, got {devices}")


async def speaks_all_versions_alike(setting: Setting) -> None:
    """Each version of the DRA API that the driver serves gives the same answer."""
    versions = setting.versions()
    if len(versions) < 2:
        raise Skipped(f"serves {versions[0]} only; kubelets of other releases need {kubelet.VERSIONS}")
    claim = await setting.claim()
    answers = {version: await setting.prepared(claim, version) for version in versions}
    if len({str(answer) for answer in answers.values()}) > 1:
        raise CheckFailed(f"the answers differ: {answers}")


async def prepares_many_devices(setting: Setting) -> None:
    """The driver prepares a claim with 32 devices, the maximum."""
    claim = await setting.claim(count=_RESULTS_MAX)
    assert claim.status.allocation is not None
    expected = len(claim.status.allocation.devices.results)
    devices = await setting.prepared(claim)
    if len(devices) != expected:
        raise CheckFailed(f"{expected} devices were allocated, {len(devices)} prepared")
    problem = setting.unresolved([id_ for one in devices for id_ in one["cdi"]])
    if problem:
        raise CheckFailed(problem)


async def answers_parallel_calls(setting: Setting) -> None:
    """The driver answers all concurrent calls, including calls for the same claim."""
    claims = [await setting.claim(), await setting.claim()] * (_PARALLEL // 2)
    answers = await asyncio.gather(*(setting.prepared(claim) for claim in claims))
    for claim, answer in zip(claims, answers, strict=True):
        if answer != answers[claims.index(claim)]:
            raise CheckFailed(f"calls at the same time for the same claim answered {answer} and {answers[0]}")


async def answers_while_another_call_hangs(setting: Setting) -> None:
    """A claim that takes long to prepare does not delay other claims."""
    if setting.cluster.traffic is None:
        raise Skipped("requests to this API server cannot be delayed")
    slow, quick = await setting.claim(), await setting.claim()
    try:
        with setting.cluster.traffic.holding(f"/resourceclaims/{slow.metadata.name}") as arrived:
            # The slow call must outlast the quick call; otherwise a driver that handles calls one by one would pass.
            hanging = asyncio.create_task(setting.prepared(slow, timeout=4 * setting.patience.call))
            await asyncio.wait_for(arrived.wait(), setting.patience.call)
            await setting.prepared(quick)
    except TimeoutError as error:
        raise CheckFailed("the driver did not read the claim that it was to prepare") from error
    except CheckFailed as error:
        raise CheckFailed(f"while another call hangs: {error}") from error
    finally:
        await asyncio.wait([hanging])  # a call that still runs could undo the cleanup
    await hanging
