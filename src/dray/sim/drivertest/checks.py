"""What a driver must do, one function a demand: its name is the check's, its first line what the driver must do.

Each makes the claims that it needs, raises Failed with what was expected and what came, and may count on a driver that
is registered. The order matters: what comes first is what the rest stands on. Left out: running them (`running`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from dray.api import names
from dray.api.types.core import Node
from dray.api.types.resource import ResourceSlice
from dray.rpc import HEALTH_SERVICES
from dray.sim.drivertest import kubelet
from dray.sim.drivertest.kubelet import Reference
from dray.sim.drivertest.setting import Failed, Places, Setting, Skipped, pool_problem

Check = Callable[[Setting], Awaitable[None]]
Tree = dict[str, Any]

PATH_BYTES_MAX = 107  # of a Unix domain socket
_RESULTS_MAX = 32  # devices of one claim
_PARALLEL = 8
_FOREIGN = "other.example.com"


# Registration


async def introduces_itself(setting: Setting) -> None:
    """GetInfo on a socket in plugins_registry names type, driver, endpoint and versions."""
    info = setting.info
    if info.type != "DRAPlugin":
        raise Failed(f"type: expected DRAPlugin, got {info.type!r}")
    if len(info.name.encode()) > 63 or [*names.subdomain(info.name)]:
        raise Failed(f"name: expected a DNS subdomain of at most 63 bytes, got {info.name!r}")
    if not _is_socket(info.endpoint):
        raise Failed(f"endpoint: expected the absolute path of a socket, got {info.endpoint!r}")
    if not setting.versions():
        raise Failed(
            f"supported_versions: expected v1.DRAPlugin or v1beta1.DRAPlugin, got {[*info.supported_versions]}"
        )


async def takes_the_answer_to_its_registration(setting: Setting) -> None:
    """NotifyRegistrationStatus is accepted, also more than once."""
    for _ in range(2):
        await setting.notify()


async def serves_what_it_announces(setting: Setting) -> None:
    """Every version that it names answers, the health stream too."""
    for version in setting.versions():
        await setting.call_prepare(version=version)
        await setting.call_unprepare(version=version)
    for service in HEALTH_SERVICES:
        if service in setting.info.supported_versions:
            await kubelet.first_health(Path(setting.info.endpoint), service, setting.patience.call)


async def uses_paths_that_can_be_bound(setting: Setting) -> None:
    """The paths of its sockets have at most 107 bytes."""
    for path in (setting.registration, Path(setting.info.endpoint)):
        if len(str(path).encode()) > PATH_BYTES_MAX:
            raise Failed(f"{path} has {len(str(path).encode())} bytes, at most {PATH_BYTES_MAX} can be bound")


# Slices


async def publishes_slices_that_are_accepted(setting: Setting) -> None:
    """It publishes slices, and the API server refuses none of them: names and numbers are within the limits."""
    problem = ""

    async def published() -> bool:
        nonlocal problem
        traffic = setting.cluster.traffic
        refusals = [one for one in traffic.refusals if one.status in (400, 403, 413, 422)] if traffic else []
        problem = str(refusals[0]) if refusals else ""
        return bool(problem) or bool(await setting.slices())

    await setting.until(published, setting.patience.start, "no slices were published")
    if problem:
        raise Failed(f"the API server refused what the driver asked: {problem}")


async def publishes_complete_pools(setting: Setting) -> None:
    """In each pool one generation has exactly resourceSliceCount slices."""
    await _slices(setting)
    problem = ""

    async def complete() -> bool:
        nonlocal problem
        problem = next(filter(None, map(pool_problem, (await _pools(setting)).values())), "")
        return not problem

    await setting.until(complete, setting.patience.start, lambda: problem)


async def publishes_what_is_its_own(setting: Setting) -> None:
    """Slices name the registered driver, the node that owns them, and each device of a pool once."""
    node = await setting.cluster.client.get(Node, setting.cluster.node)
    for pool, slices in (await _pools(setting)).items():
        listed = [device.name for one in slices for device in one.spec.devices]
        twice = next((name for name in listed if listed.count(name) > 1), None)
        if twice:
            raise Failed(f"pool {pool}: device {twice} is there twice")
        for one in slices:
            owners = {owner.uid for owner in one.metadata.ownerReferences}
            if one.spec.nodeName and node.metadata.uid not in owners:
                raise Failed(f"slice {one.metadata.name}: expected an owner reference to node {node.metadata.name}")


async def writes_nothing_without_need(setting: Setting) -> None:
    """While nothing changes, no slice is written."""
    await _slices(setting)
    before = await _versions(setting)
    traffic = setting.cluster.traffic
    writes = traffic.writes if traffic else 0
    await asyncio.sleep(setting.patience.quiet)
    if await _versions(setting) != before or (traffic and traffic.writes != writes):
        raise Failed(f"slices were written within {setting.patience.quiet:g} s although nothing had changed")


async def puts_back_deleted_slices(setting: Setting) -> None:
    """A slice that somebody deleted comes back."""
    before = await _contents(setting)
    [one, *_] = await _slices(setting)
    await setting.cluster.client.delete(ResourceSlice, one.metadata.name)
    await _until_restored(setting, before, "the deleted slice did not come back")


async def puts_right_changed_slices(setting: Setting) -> None:
    """A slice that somebody changed is published again as it was."""
    before = await _contents(setting)
    one = next((one for one in await _slices(setting) if one.spec.devices), None)
    if one is None:
        raise Skipped("no slice has devices")
    tree: Tree = msgspec.to_builtins(one)
    tree["spec"]["devices"] = tree["spec"]["devices"][1:]
    await setting.cluster.client.update(ResourceSlice, tree)
    await _until_restored(setting, before, "the device that was taken out of a slice did not come back")


async def removes_strange_slices(setting: Setting) -> None:
    """A slice of its pool that it did not write, with a higher generation, does not keep the pool from being used."""
    before = await _contents(setting)
    [one, *_] = await _slices(setting)
    tree: Tree = msgspec.to_builtins(one)
    generation = one.spec.pool.generation + 1
    tree["metadata"] = {"name": "driver-test-stranger", "ownerReferences": tree["metadata"].get("ownerReferences", [])}
    tree["spec"] |= {
        "pool": {**tree["spec"]["pool"], "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": "driver-test-stranger"}],
    }
    tree["spec"].pop("sharedCounters", None)
    await setting.cluster.client.create(ResourceSlice, tree)
    await _until_restored(setting, before, "the pool is still shadowed by a slice of a higher generation")


async def raises_the_generation(setting: Setting) -> None:
    """When devices change, the pool's generation is raised, unless a single write made the change."""
    if not setting.subject.changeable:
        raise Skipped("nothing is known that changes the driver's devices (--change COMMAND)")
    before = {pool: _newest(slices) for pool, slices in (await _pools(setting)).items()}
    contents = await _contents(setting)
    if not contents:
        raise Skipped("no complete pool was published")
    await setting.subject.change()

    async def changed() -> bool:
        """Whether other devices are published and all writes for that are done."""
        after = await _versions(setting)
        if await _contents(setting) in (contents, {}):
            return False
        await asyncio.sleep(setting.patience.quiet)
        return await _versions(setting) == after

    await setting.until(changed, setting.patience.repair, "no other devices were published after the change")
    for pool, slices in (await _pools(setting)).items():
        old, new = before.get(pool, {}), _newest(slices)
        written = sum(spec != old.get(name) for name, spec in new.items()) + len(old.keys() - new.keys())
        if old and written > 1 and _generation(new) <= _generation(old):
            raise Failed(
                f"pool {pool}: {written} slices changed, but the generation stayed {_generation(old)}: "
                "a scheduler may have taken old and new slices for one pool"
            )


# Prepare


async def prepares_a_claim(setting: Setting) -> None:
    """NodePrepareResources of an allocated claim succeeds."""
    await setting.prepared(await setting.claim())


async def names_the_devices(setting: Setting) -> None:
    """The answer names request, pool and device of the allocation, and nothing else."""
    claim = await setting.claim(count=2)
    assert claim.status.allocation is not None
    results = claim.status.allocation.devices.results
    devices = await setting.prepared(claim)
    expected = {(one.pool, one.device): one.request for one in results}
    for one in devices:
        request = expected.get((one["pool"], one["device"]))
        if request is None:
            raise Failed(f"device {one['device']} of pool {one['pool']} was not allocated; expected {[*expected]}")
        if one["requests"] and request not in one["requests"]:
            raise Failed(f"device {one['device']} belongs to request {request}, not to {one['requests']}")
    missing = expected.keys() - {(one["pool"], one["device"]) for one in devices}
    if missing:
        raise Failed(f"the answer lacks {sorted(missing)}")


async def writes_cdi_specs(setting: Setting) -> None:
    """Every CDI id of the answer is described by a valid spec when the answer comes."""
    devices = await setting.prepared(await setting.claim())
    ids = [id_ for one in devices for id_ in one["cdi"]]
    problem = setting.unresolved(ids)
    if problem:
        raise Failed(f"a container runtime cannot use {ids}: {problem}")


async def prepares_twice_the_same(setting: Setting) -> None:
    """Preparing a prepared claim again succeeds with the same devices."""
    claim = await setting.claim()
    first = await setting.prepared(claim)
    try:
        again = await setting.prepared(claim)
    except Failed as error:
        raise Failed(f"the second call: {error}") from error
    if again != first:
        raise Failed(f"the second call answered {again}, the first {first}")


async def answers_for_every_claim(setting: Setting) -> None:
    """A call with several claims is answered for each of them, and an error concerns its claim alone."""
    good = [await setting.claim(), await setting.claim()]
    bad = Reference("default", "driver-test-unknown", str(uuid.uuid4()))
    answers = await setting.call_prepare(*map(Reference.to, good), bad)
    for claim in good:
        answer = answers.get(claim.metadata.uid)
        if answer is None:
            raise Failed(f"3 claims were asked for, the answer has {len(answers)}: {claim.metadata.name} is missing")
        if answer.error:
            raise Failed(f"a claim failed because of its neighbour: {answer.error}")
    if bad.uid not in answers:
        raise Failed("the claim that does not exist is missing from the answer; expected an error for it")
    undone = await setting.call_unprepare(*map(Reference.to, good))
    if undone.keys() != {claim.metadata.uid for claim in good}:
        raise Failed(f"2 claims were to be unprepared, the answer has {len(undone)}")


async def refuses_unknown_claims(setting: Setting) -> None:
    """A claim that does not exist is not prepared."""
    reference = Reference("default", "driver-test-unknown", str(uuid.uuid4()))
    await setting.refused(reference, "a claim that does not exist")


async def checks_the_uid(setting: Setting) -> None:
    """A claim that was replaced by another one of the same name is not prepared."""
    claim = await setting.claim()
    await setting.refused(Reference.to(claim, str(uuid.uuid4())), "a claim with another uid")


async def refuses_unallocated_claims(setting: Setting) -> None:
    """A claim that is not allocated is not prepared."""
    claim = await setting.unallocated_claim()
    await setting.refused(Reference.to(claim), "a claim without allocation")


async def refuses_devices_that_are_gone(setting: Setting) -> None:
    """A device that is not there (any more) is not prepared."""
    [(pool, _)] = await setting.devices()
    claim = await setting.claim(devices=[(pool, "driver-test-gone")])
    await setting.refused(Reference.to(claim), "a device that is not there")


async def ignores_other_drivers(setting: Setting) -> None:
    """Devices and configuration of other drivers in the same claim are none of its business."""
    other = {"request": "other", "driver": _FOREIGN, "pool": "p", "device": "d"}
    opaque = {"driver": _FOREIGN, "parameters": {"unheard": "of"}}
    config = [{"source": source, "opaque": opaque} for source in ("FromClass", "FromClaim")]
    devices = await setting.prepared(await setting.claim(others=[other], config=config))
    if len(devices) != 1 or devices[0]["device"] == "d":
        raise Failed(f"expected one device, its own, got {devices}")


async def speaks_all_versions_alike(setting: Setting) -> None:
    """Each version of the API that it serves gives the same answer."""
    versions = setting.versions()
    if len(versions) < 2:
        raise Skipped(f"serves {versions[0]} only; kubelets of other releases need {kubelet.VERSIONS}")
    claim = await setting.claim()
    answers = {version: await setting.prepared(claim, version) for version in versions}
    if len({str(answer) for answer in answers.values()}) > 1:
        raise Failed(f"the answers differ: {answers}")


async def prepares_many_devices(setting: Setting) -> None:
    """A claim may have up to 32 devices."""
    claim = await setting.claim(count=_RESULTS_MAX)
    assert claim.status.allocation is not None
    expected = len(claim.status.allocation.devices.results)
    devices = await setting.prepared(claim)
    if len(devices) != expected:
        raise Failed(f"{expected} devices were allocated, {len(devices)} prepared")
    problem = setting.unresolved([id_ for one in devices for id_ in one["cdi"]])
    if problem:
        raise Failed(problem)


async def answers_parallel_calls(setting: Setting) -> None:
    """Calls that come at once are all answered, also those for the same claim."""
    claims = [await setting.claim(), await setting.claim()] * (_PARALLEL // 2)
    answers = await asyncio.gather(*(setting.prepared(claim) for claim in claims))
    for claim, answer in zip(claims, answers, strict=True):
        if answer != answers[claims.index(claim)]:
            raise Failed(f"calls at the same time for the same claim answered {answer} and {answers[0]}")


async def answers_while_another_call_hangs(setting: Setting) -> None:
    """A claim that takes long does not delay the others."""
    if setting.cluster.traffic is None:
        raise Skipped("requests to this API server cannot be delayed")
    slow, quick = await setting.claim(), await setting.claim()
    with setting.cluster.traffic.holding(f"/resourceclaims/{slow.metadata.name}") as arrived:
        hanging = asyncio.create_task(setting.call_prepare(Reference.to(slow)))
        try:
            await asyncio.wait_for(arrived.wait(), setting.patience.call)
            await setting.prepared(quick)
        except TimeoutError as error:
            raise Failed("the driver did not read the claim that it was to prepare") from error
        except Failed as error:
            raise Failed(f"while another call hangs: {error}") from error
        finally:
            hanging.cancel()
            await asyncio.gather(hanging, return_exceptions=True)
    await setting.prepared(slow)


# Unprepare


async def unprepares_a_claim(setting: Setting) -> None:
    """NodeUnprepareResources succeeds, and the CDI specs of the claim are gone."""
    claim = await setting.claim()
    devices = await setting.prepared(claim)
    await setting.unprepared(claim)
    _check_specs_are_gone(setting, claim.metadata.uid, devices)


async def unprepares_twice(setting: Setting) -> None:
    """Unpreparing a claim again succeeds."""
    claim = await setting.claim()
    await setting.prepared(claim)
    await setting.unprepared(claim)
    await setting.unprepared(claim, "unpreparing for the second time")


async def unprepares_what_it_never_prepared(setting: Setting) -> None:
    """Unpreparing a claim that was never prepared succeeds: the node agent cannot know how far a prepare came."""
    await setting.unprepared(await setting.claim(), "unpreparing a claim that was not prepared")


async def unprepares_without_the_claim(setting: Setting) -> None:
    """Unpreparing works when the claim object is gone."""
    claim = await setting.claim()
    devices = await setting.prepared(claim)
    await setting.delete(claim)
    await setting.unprepared(claim, "unpreparing after the claim was deleted")
    _check_specs_are_gone(setting, claim.metadata.uid, devices)


async def prepares_again_afterwards(setting: Setting) -> None:
    """A claim that was unprepared can be prepared again."""
    claim = await setting.claim()
    await setting.prepared(claim)
    await setting.unprepared(claim)
    ids = [id_ for one in await setting.prepared(claim) for id_ in one["cdi"]]
    problem = setting.unresolved(ids)
    if problem:
        raise Failed(f"prepared again: {problem}")


# Restart


async def remembers_claims_over_a_restart(setting: Setting) -> None:
    """After a restart a prepared claim has the same devices, and can be unprepared though the object is gone."""
    claim = await setting.claim()
    before = await setting.prepared(claim)
    await _restart(setting)
    after = await setting.prepared(claim)
    if after != before:
        raise Failed(f"prepared again after the restart: {after}, before it {before}")
    problem = setting.unresolved([id_ for one in after for id_ in one["cdi"]])
    if problem:
        raise Failed(f"after the restart: {problem}")
    await setting.delete(claim)
    await setting.unprepared(claim, "unpreparing after a restart")
    _check_specs_are_gone(setting, claim.metadata.uid, after)


async def comes_back_after_being_killed(setting: Setting) -> None:
    """Killed without warning, it starts again, registers over the sockets that it left, and knows its claims."""
    claim = await setting.claim()
    before = await setting.prepared(claim)
    await _restart(setting, kill=True)
    after = await setting.prepared(claim)
    if after != before:
        raise Failed(f"prepared again after the kill: {after}, before it {before}")
    await setting.unprepared(claim, "unpreparing after the kill")
    _check_specs_are_gone(setting, claim.metadata.uid, after)


async def takes_its_sockets_away(setting: Setting) -> None:
    """When it is told to end, it removes its sockets, so that nobody calls in vain."""
    _need_restarts(setting)
    await setting.subject.stop()
    left = setting.places.sockets()
    await setting.start()
    if left:
        raise Failed(f"left behind: {', '.join(map(str, left))}")


async def says_that_a_path_is_too_long(setting: Setting) -> None:
    """With a directory whose sockets cannot be bound it ends with an error and says so."""
    _need_restarts(setting)
    await setting.subject.stop()
    places = setting.places
    long = places.kubelet_dir.parent / ("long-" * 25) / "kubelet"
    try:
        too_long = Places(places.kubeconfig, places.node, long, places.cdi_dir)
        too_long.make()
        await setting.subject.start(too_long)
        try:
            status = await asyncio.wait_for(setting.subject.ended(), setting.patience.start)
        except TimeoutError as error:
            raise Failed("expected it to end with an error, but it runs on, and nobody can reach it") from error
        if status == 0:
            raise Failed("expected it to end with an error, but its exit status is 0")
    finally:
        await setting.subject.stop(kill=True)
        await setting.start()


async def leaves_nothing_behind(setting: Setting) -> None:
    """After all claims are unprepared, no CDI spec is left."""
    left = sorted(path.name for path in setting.places.cdi_dir.glob("*"))
    if left and setting.subject.restartable:  # a directory of our own
        raise Failed(f"left in the CDI directory: {', '.join(left)}")


CHECKS: dict[str, tuple[Check, ...]] = {
    "registration": (
        introduces_itself,
        takes_the_answer_to_its_registration,
        serves_what_it_announces,
        uses_paths_that_can_be_bound,
    ),
    "slices": (
        publishes_slices_that_are_accepted,
        publishes_complete_pools,
        publishes_what_is_its_own,
        writes_nothing_without_need,
        puts_back_deleted_slices,
        puts_right_changed_slices,
        removes_strange_slices,
        raises_the_generation,
    ),
    "prepare": (
        prepares_a_claim,
        names_the_devices,
        writes_cdi_specs,
        prepares_twice_the_same,
        answers_for_every_claim,
        refuses_unknown_claims,
        checks_the_uid,
        refuses_unallocated_claims,
        refuses_devices_that_are_gone,
        ignores_other_drivers,
        speaks_all_versions_alike,
        prepares_many_devices,
        answers_parallel_calls,
        answers_while_another_call_hangs,
    ),
    "unprepare": (
        unprepares_a_claim,
        unprepares_twice,
        unprepares_what_it_never_prepared,
        unprepares_without_the_claim,
        prepares_again_afterwards,
    ),
    "restart": (
        remembers_claims_over_a_restart,
        comes_back_after_being_killed,
        takes_its_sockets_away,
        says_that_a_path_is_too_long,
        leaves_nothing_behind,
    ),
}


# What several checks need


def _is_socket(path: str) -> bool:
    return Path(path).is_absolute() and Path(path).is_socket()


def _need_restarts(setting: Setting) -> None:
    if not setting.subject.restartable:
        raise Skipped("the driver was not started by the kit")


async def _restart(setting: Setting, *, kill: bool = False) -> None:
    _need_restarts(setting)
    await setting.subject.stop(kill=kill)
    await setting.start()


def _check_specs_are_gone(setting: Setting, uid: str, devices: list[Tree]) -> None:
    """Ids that are made for a claim must end with it; a driver may also have specs that always exist."""
    for one in devices:
        for id_ in one["cdi"]:
            if uid in id_ and not setting.unresolved([id_]):
                raise Failed(f"the CDI spec of {id_} is still there after unprepare")


async def _slices(setting: Setting) -> list[ResourceSlice]:
    slices = await setting.slices()
    if not slices:
        raise Skipped("no slices were published")
    return slices


async def _pools(setting: Setting) -> dict[str, list[ResourceSlice]]:
    pools: dict[str, list[ResourceSlice]] = {}
    for one in await setting.slices():
        pools.setdefault(one.spec.pool.name, []).append(one)
    return pools


async def _versions(setting: Setting) -> list[tuple[str, str]]:
    return [(one.metadata.name, one.metadata.resourceVersion) for one in await setting.slices()]


async def _contents(setting: Setting) -> dict[str, list[Tree]]:
    """The devices of each complete pool, whatever slices they are in."""
    return {
        pool: [msgspec.to_builtins(device) for one in _current(slices) for device in one.spec.devices]
        for pool, slices in (await _pools(setting)).items()
        if not pool_problem(slices)
    }


def _current(slices: list[ResourceSlice]) -> list[ResourceSlice]:
    newest = max(one.spec.pool.generation for one in slices)
    return sorted((one for one in slices if one.spec.pool.generation == newest), key=lambda one: one.metadata.name)


async def _until_restored(setting: Setting, before: dict[str, list[Tree]], failure: str) -> None:
    async def restored() -> bool:
        after = await _contents(setting)
        return {pool: _sorted(devices) for pool, devices in after.items()} == {
            pool: _sorted(devices) for pool, devices in before.items()
        }

    await setting.until(restored, setting.patience.repair, failure)


def _sorted(devices: list[Tree]) -> list[Tree]:
    return sorted(devices, key=lambda device: str(device["name"]))


def _newest(slices: list[ResourceSlice]) -> dict[str, Tree]:
    return {one.metadata.name: msgspec.to_builtins(one.spec) for one in _current(slices)}


def _generation(specs: dict[str, Tree]) -> int:
    return max((int(spec["pool"]["generation"]) for spec in specs.values()), default=0)
