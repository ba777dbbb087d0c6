"""Requirements for NodeUnprepareResources, whatever happened before."""

from __future__ import annotations

from dray.api.wire import Tree
from dray.driverkit.setting import CheckFailed, Setting


async def unprepares_a_claim(setting: Setting) -> None:
    """NodeUnprepareResources succeeds and removes the claim's CDI specs."""
    claim = await setting.claim()
    devices = await setting.prepared(claim)
    await setting.unprepared(claim)
    check_specs_are_gone(setting, claim.metadata.uid, devices)


async def unprepares_twice(setting: Setting) -> None:
    """Unpreparing a claim again succeeds."""
    claim = await setting.claim()
    await setting.prepared(claim)
    await setting.unprepared(claim)
    await setting.unprepared(claim, "unpreparing for the second time")


async def unprepares_what_it_never_prepared(setting: Setting) -> None:
    """Unpreparing a claim that was never prepared succeeds, since the node agent cannot know how far a prepare came."""
    await setting.unprepared(await setting.claim(), "unpreparing a claim that was not prepared")


async def unprepares_without_the_claim(setting: Setting) -> None:
    """Unpreparing a claim succeeds after the claim object was deleted."""
    claim = await setting.claim()
    devices = await setting.prepared(claim)
    await setting.delete(claim)
    await setting.unprepared(claim, "unpreparing after the claim was deleted")
    check_specs_are_gone(setting, claim.metadata.uid, devices)


async def prepares_again_afterwards(setting: Setting) -> None:
    """Preparing a claim succeeds again after unpreparing it."""
    claim = await setting.claim()
    await setting.prepared(claim)
    await setting.unprepared(claim)
    ids = [id_ for one in await setting.prepared(claim) for id_ in one["cdi"]]
    problem = setting.unresolved(ids)
    if problem:
        raise CheckFailed(f"prepared again: {problem}")


def check_specs_are_gone(setting: Setting, uid: str, devices: list[Tree]) -> None:
    """Raise `CheckFailed` if a CDI id that contains the claim's uid still has a spec; other specs may be permanent."""
    for one in devices:
        for id_ in one["cdi"]:
            if uid in id_ and not setting.unresolved([id_]):
                raise CheckFailed(f"the CDI spec of {id_} is still there after unprepare")
