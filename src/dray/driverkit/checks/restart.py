"""Requirements for a driver's start, end, and restart after a kill."""

from __future__ import annotations

import asyncio

from dray.driverkit.checks.unprepare import check_specs_are_gone
from dray.driverkit.setting import CheckFailed, Places, Setting, Skipped


async def remembers_claims_over_a_restart(setting: Setting) -> None:
    """After a restart a prepared claim has the same devices and can be unprepared after its deletion."""
    claim = await setting.claim()
    before = await setting.prepared(claim)
    await _restart(setting)
    after = await setting.prepared(claim)
    if after != before:
        raise CheckFailed(f"prepared again after the restart: {after}, before it {before}")
    problem = setting.unresolved([id_ for one in after for id_ in one["cdi"]])
    if problem:
        raise CheckFailed(f"after the restart: {problem}")
    await setting.delete(claim)
    await setting.unprepared(claim, "unpreparing after a restart")
    check_specs_are_gone(setting, claim.metadata.uid, after)


async def comes_back_after_being_killed(setting: Setting) -> None:
    """After SIGKILL the driver starts again, registers despite its leftover sockets, and knows its prepared claims."""
    claim = await setting.claim()
    before = await setting.prepared(claim)
    await _restart(setting, kill=True)
    after = await setting.prepared(claim)
    if after != before:
        raise CheckFailed(f"prepared again after the kill: {after}, before it {before}")
    await setting.unprepared(claim, "unpreparing after the kill")
    check_specs_are_gone(setting, claim.metadata.uid, after)


async def takes_its_sockets_away(setting: Setting) -> None:
    """The driver removes its sockets when it is told to end, so that they cause no failing calls."""
    _need_restarts(setting)
    await setting.subject.stop()
    left = setting.places.sockets()
    await setting.start()
    if left:
        raise CheckFailed(f"left behind: {', '.join(map(str, left))}")


async def handles_a_path_that_is_too_long(setting: Setting) -> None:
    """The driver exits with an error if its directory's path is too long for sockets, or opens its sockets there
    anyway.
    """
    _need_restarts(setting)
    await setting.subject.stop()
    places = setting.places
    long = places.kubelet_dir.parent / ("long-" * 25) / "kubelet"
    try:
        too_long = Places(places.kubeconfig, places.node, long, places.cdi_dir)
        too_long.make()
        await setting.subject.start(too_long)
        ended = asyncio.ensure_future(setting.subject.ended())
        try:
            await setting.until(
                lambda: _ended_or_serves(ended, too_long), setting.patience.start, "neither an error nor sockets"
            )
            if ended.done() and ended.result() == 0:
                raise CheckFailed("expected the driver to exit with an error, but its exit status is 0")
        finally:
            ended.cancel()
    finally:
        await setting.subject.stop(kill=True)
        await setting.start()


async def _ended_or_serves(ended: asyncio.Future[int], places: Places) -> bool:
    return ended.done() or bool(places.sockets())


async def leaves_nothing_behind(setting: Setting) -> None:
    """No CDI spec is left after all claims are unprepared."""
    left = sorted(path.name for path in setting.places.cdi_dir.glob("*"))
    if left and setting.subject.restartable:  # the directory belongs to this run alone
        raise CheckFailed(f"left in the CDI directory: {', '.join(left)}")


def _need_restarts(setting: Setting) -> None:
    if not setting.subject.restartable:
        raise Skipped("the driver was not started by the kit")


async def _restart(setting: Setting, *, kill: bool = False) -> None:
    _need_restarts(setting)
    await setting.subject.stop(kill=kill)
    await setting.start()
