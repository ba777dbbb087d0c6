"""Requirements for a driver's ResourceSlices."""

from __future__ import annotations

import asyncio

import msgspec

from dray.api.types.core import Node
from dray.api.types.resource import ResourceSlice
from dray.api.wire import Tree
from dray.driverkit.setting import CheckFailed, Setting, Skipped, pool_problem


async def publishes_slices_that_are_accepted(setting: Setting) -> None:
    """The driver publishes slices, and the API server refuses none of them: names and numbers are within the limits."""
    problem = ""

    async def published() -> bool:
        nonlocal problem
        traffic = setting.cluster.traffic
        refusals = [one for one in traffic.refusals if one.status in (400, 403, 413, 422)] if traffic else []
        problem = str(refusals[0]) if refusals else ""
        return bool(problem) or bool(await setting.slices())

    await setting.until(published, setting.patience.start, "no slices were published")
    if problem:
        raise CheckFailed(f"the API server refused a request of the driver: {problem}")


async def publishes_complete_pools(setting: Setting) -> None:
    """One generation of each pool has exactly resourceSliceCount slices."""
    await _slices(setting)
    problem = ""

    async def complete() -> bool:
        nonlocal problem
        problem = next(filter(None, map(pool_problem, (await _pools(setting)).values())), "")
        return not problem

    await setting.until(complete, setting.patience.start, lambda: problem)


async def publishes_what_is_its_own(setting: Setting) -> None:
    """Slices name the registered driver and the node as owner, and each device of a pool occurs once."""
    node = await setting.cluster.client.get(Node, setting.cluster.node)
    for pool, slices in (await _pools(setting)).items():
        listed = [device.name for one in slices for device in one.spec.devices]
        twice = next((name for name in listed if listed.count(name) > 1), None)
        if twice:
            raise CheckFailed(f"pool {pool}: device {twice} occurs twice")
        for one in slices:
            owners = {owner.uid for owner in one.metadata.ownerReferences}
            if one.spec.nodeName and node.metadata.uid not in owners:
                raise CheckFailed(
                    f"slice {one.metadata.name}: expected an owner reference to node {node.metadata.name}"
                )


async def writes_nothing_without_need(setting: Setting) -> None:
    """The driver writes no slices while nothing changes."""
    await _slices(setting)
    before = await _versions(setting)
    traffic = setting.cluster.traffic
    writes = traffic.writes if traffic else 0
    await asyncio.sleep(setting.patience.quiet)
    if await _versions(setting) != before or (traffic and traffic.writes != writes):
        raise CheckFailed(f"slices were written within {setting.patience.quiet:g} s although nothing had changed")


async def puts_back_deleted_slices(setting: Setting) -> None:
    """The driver restores a slice that somebody deleted."""
    before = await _contents(setting)
    [one, *_] = await _slices(setting)
    await setting.cluster.client.delete(ResourceSlice, one.metadata.name)
    await _until_restored(setting, before, "the deleted slice did not come back")


async def puts_right_changed_slices(setting: Setting) -> None:
    """The driver restores a slice that somebody changed."""
    before = await _contents(setting)
    one = next((one for one in await _slices(setting) if one.spec.devices), None)
    if one is None:
        raise Skipped("no slice has devices")
    tree: Tree = msgspec.to_builtins(one)
    tree["spec"]["devices"] = tree["spec"]["devices"][1:]
    await setting.cluster.client.update(ResourceSlice, tree)
    await _until_restored(setting, before, "the device that was taken out of a slice did not come back")


async def removes_strange_slices(setting: Setting) -> None:
    """A foreign slice in the driver's pool with a higher generation does not keep the pool unusable."""
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
    """The driver raises a pool's generation when its devices change, unless one write makes the whole change."""
    if not setting.subject.changeable:
        raise Skipped("no command is given that changes the driver's devices (--change COMMAND)")
    await setting.until(lambda: _rests(setting), setting.patience.repair, "slices are written again and again")
    before = {pool: _newest(slices) for pool, slices in (await _pools(setting)).items()}
    contents = await _contents(setting)
    if not contents:
        raise Skipped("no complete pool was published")
    await setting.subject.change()

    async def changed() -> bool:
        """Whether other devices are published and all writes for this change are done."""
        return await _contents(setting) not in (contents, {}) and await _rests(setting)

    await setting.until(changed, setting.patience.repair, "no other devices were published after the change")
    for pool, slices in (await _pools(setting)).items():
        old, new = before.get(pool, {}), _newest(slices)
        written = sum(spec != old.get(name) for name, spec in new.items()) + len(old.keys() - new.keys())
        if old and written > 1 and _generation(new) <= _generation(old):
            raise CheckFailed(
                f"pool {pool}: {written} slices changed, but the generation stayed {_generation(old)}: "
                "a scheduler may have taken old and new slices for one pool"
            )


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


async def _rests(setting: Setting) -> bool:
    """Whether no slice is written for a while.

    The time is `setting.patience.quiet` seconds.
    """
    before = await _versions(setting)
    await asyncio.sleep(setting.patience.quiet)
    return await _versions(setting) == before


async def _versions(setting: Setting) -> list[tuple[str, str]]:
    return [(one.metadata.name, one.metadata.resourceVersion) for one in await setting.slices()]


async def _contents(setting: Setting) -> dict[str, list[Tree]]:
    """Return the devices of each complete pool, regardless of their distribution over slices."""
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
