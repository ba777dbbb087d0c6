"""Registration of drivers on real sockets."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dray.client import ManualClock, SystemClock
from dray.node import drivers
from dray.node.drivers import V1, V1BETA1, ClaimId, DriverConnection, DriverError
from dray.node.plugins import AWAY_SECONDS, TRANSITIONS, Plugins, RegistrationEvent, RegistrationState
from tests.node.driver import NAME, Driver
from tests.waiting import eventually, within

CLAIM = ClaimId("ns", "c", "u")


class Watched:
    """Plugins, and what they told."""

    def __init__(self, root: Path, clock: SystemClock | ManualClock) -> None:
        self.changed: list[str] = []
        self.removed: list[str] = []
        self.plugins = Plugins(
            root / "plugins_registry",
            clock=clock,
            changed=self.changed.append,
            remove_slices=self._remove,
        )

    async def _remove(self, driver: str) -> None:
        self.removed.append(driver)

    async def connected(self, name: str = NAME) -> None:
        await eventually(lambda: (driver := self.plugins.find(name)) is not None and driver.connected)


@pytest.fixture
async def clock() -> SystemClock | ManualClock:
    return SystemClock()


@pytest.fixture
async def watched(root: Path, clock: SystemClock | ManualClock) -> AsyncIterator[Watched]:
    watched = Watched(root, clock)
    task = asyncio.create_task(watched.plugins.run())
    yield watched
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_driver_registers_and_is_told(watched: Watched, driver: Driver) -> None:
    await driver.start()
    await watched.connected()
    await within(driver.registered.wait())
    [status] = driver.statuses
    assert (status.plugin_registered, status.error) == (True, "")
    assert watched.changed == [NAME]
    assert watched.plugins.find("other.example") is None


@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_both_versions_are_spoken(watched: Watched, root: Path, version: str) -> None:
    driver = await Driver(root, versions=(version,)).start()
    await watched.connected()
    found = watched.plugins.find(NAME)
    assert found is not None
    assert found.version == version
    answer = await found.prepare([CLAIM])
    assert [device.device for device in answer["u"]] == ["gpu-0"]  # type: ignore[union-attr]  # an error would have no device
    assert await found.unprepare([CLAIM]) == {"u": ""}
    await driver.stop()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kind": "CSIPlugin"}, "plugin type 'CSIPlugin'"),
        ({"versions": ("v1alpha3.DRAPlugin",)}, "expected v1.DRAPlugin or v1beta1.DRAPlugin"),
        ({"versions": ()}, "supported versions none"),
        ({"name": "Not_A_Name"}, "driver name 'Not_A_Name'"),
    ],
)
async def test_what_is_no_driver_is_refused_with_a_reason(
    watched: Watched, root: Path, arguments: dict[str, object], text: str
) -> None:
    driver = await Driver(root, **arguments).start()  # type: ignore[arg-type]  # by name
    await eventually(lambda: driver.statuses)
    assert not driver.statuses[0].plugin_registered
    assert text in driver.statuses[0].error
    assert watched.plugins.all() == []
    await driver.stop()


async def test_a_socket_that_hangs_holds_up_nobody(watched: Watched, driver: Driver, root: Path) -> None:
    silent = socket.socket(socket.AF_UNIX)
    (root / "plugins_registry").mkdir(exist_ok=True)
    silent.bind(str(root / "plugins_registry" / "a-reg.sock"))
    silent.listen()
    (root / "plugins_registry" / "notes").write_text("no socket")
    await driver.start()
    await watched.connected()
    silent.close()


async def test_of_two_instances_the_latest_is_called_and_then_the_other(watched: Watched, root: Path) -> None:
    old = await Driver(root, instance="1").start()
    await watched.connected()
    new = await Driver(root, instance="2").start()
    await eventually(lambda: len([d for d in watched.plugins.all() if d.connected]) == 2)
    found = watched.plugins.find(NAME)
    assert found is not None
    assert found.endpoint == str(new.endpoint)
    await new.stop()
    await eventually(lambda: len(watched.plugins.all()) == 1)
    found = watched.plugins.find(NAME)
    assert found is not None
    assert found.endpoint == str(old.endpoint)
    await found.prepare([CLAIM])
    assert (old.called("prepare"), new.called("prepare")) == ([["u"]], [])
    assert watched.removed == []
    await old.stop()


async def test_a_socket_that_goes_while_the_directory_is_read_takes_no_other_along(
    watched: Watched, driver: Driver, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await driver.start()
    await watched.connected()
    looks = 0

    class Entries:
        """The directory with an entry at its beginning that is gone before it is looked at."""

        def __init__(self, directory: Path) -> None:
            (directory / "0").touch()
            with os.scandir(directory) as entries:
                self._entries = sorted(entries, key=lambda entry: entry.name)
            (directory / "0").unlink()

        def __enter__(self) -> list[os.DirEntry[str]]:
            nonlocal looks
            looks += 1
            return self._entries

        def __exit__(self, *reason: object) -> None:
            pass

    monkeypatch.setattr("dray.node.plugins.os", SimpleNamespace(scandir=Entries))
    await eventually(lambda: looks == 3)
    assert watched.plugins.find(NAME) is not None
    assert watched.removed == []


async def test_a_driver_that_goes_before_it_heard_of_its_registration_takes_its_slices_along(
    watched: Watched, driver: Driver, hasty: None
) -> None:
    driver.deaf = True
    await driver.start()
    await eventually(lambda: len(driver.statuses) > 1, 5)  # it is told again until it has heard
    await driver.stop()
    await eventually(lambda: watched.removed == [NAME])
    assert watched.plugins.find(NAME) is None


async def test_a_killed_driver_comes_back_on_the_same_path(watched: Watched, driver: Driver) -> None:
    await driver.start()
    await watched.connected()
    await driver.stop(take_away=False)
    await eventually(lambda: not any(d.connected for d in watched.plugins.all()))
    driver.registered.clear()
    await driver.start()
    await within(driver.registered.wait())
    await watched.connected()
    found = watched.plugins.find(NAME)
    assert found is not None
    await found.prepare([CLAIM])
    assert watched.removed == []


async def test_a_driver_that_restarts_behind_a_kept_registration_is_reached_again(
    watched: Watched, driver: Driver, root: Path
) -> None:
    await driver.start()
    await watched.connected()
    await driver._servers[1].stop(0)
    await eventually(lambda: not any(d.connected for d in watched.plugins.all()))
    other = Driver(root)
    other.registration = root / "elsewhere.sock"
    await other.start()
    await watched.connected()
    await other.stop()


async def test_a_directory_with_a_long_path_may_be_replaced(root: Path) -> None:
    """The kernel takes no such path for a socket, so the directory is opened; the one that was opened may be gone."""
    long = root / ("long" * 30)
    for _ in range(2):
        driver = await Driver(root).start()
        driver.endpoint.parent.rename(long)
        connection = DriverConnection(NAME, str(long / driver.endpoint.name), (V1,))
        assert await within(connection.unprepare([CLAIM])) == {CLAIM.uid: ""}
        await connection.aclose()
        await driver.stop()
        shutil.rmtree(long)


async def test_a_call_to_a_driver_that_is_away_fails_soon(watched: Watched, driver: Driver) -> None:
    await driver.start()
    await watched.connected()
    found = watched.plugins.find(NAME)
    assert found is not None
    await driver._servers[1].stop(0)
    with pytest.raises(DriverError, match="UNAVAILABLE"):
        await within(found.prepare([CLAIM]), drivers.DEADLINE_SECONDS / 2)


async def test_a_call_that_is_under_way_when_its_driver_goes_fails(watched: Watched, driver: Driver) -> None:
    await driver.start()
    await watched.connected()
    found = watched.plugins.find(NAME)
    assert found is not None
    driver.hang = True
    call = asyncio.create_task(found.prepare([CLAIM]))
    await eventually(lambda: driver.calls)
    driver.registration.unlink()
    with pytest.raises(DriverError, match="the driver disconnected"):
        await within(call)
    with pytest.raises(DriverError, match="the driver disconnected"):
        await found.prepare([CLAIM])


async def test_a_call_that_takes_too_long_is_given_up(
    watched: Watched, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drivers.DEADLINE_SECONDS == 45
    monkeypatch.setattr(drivers, "DEADLINE_SECONDS", 0.1)
    await driver.start()
    await watched.connected()
    found = watched.plugins.find(NAME)
    assert found is not None
    driver.hang = True
    with pytest.raises(DriverError, match="DEADLINE_EXCEEDED"):
        await found.prepare([CLAIM])


async def test_a_call_that_its_caller_gives_up_is_cancelled(watched: Watched, driver: Driver) -> None:
    await driver.start()
    await watched.connected()
    found = watched.plugins.find(NAME)
    assert found is not None
    driver.hang = True
    call = asyncio.create_task(found.prepare([CLAIM]))
    await eventually(lambda: driver.calls)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


class TestAwayForLong:
    @pytest.fixture
    async def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.mark.parametrize("take_away", [True, False], ids=["its socket goes", "its socket stays"])
    async def test_slices_are_removed_after_a_while(
        self, watched: Watched, driver: Driver, clock: ManualClock, take_away: bool
    ) -> None:
        await driver.start()
        await watched.connected()
        await driver.stop(take_away=take_away)
        await eventually(lambda: not any(d.connected for d in watched.plugins.all()))
        await clock.advance(AWAY_SECONDS - 1)
        assert watched.removed == []
        await clock.advance(2)
        assert watched.removed == [NAME]

    async def test_slices_stay_when_one_driver_takes_the_place_of_another(
        self, watched: Watched, root: Path, clock: ManualClock
    ) -> None:
        """So does a DaemonSet without surge: the old pod goes, then the new one comes."""
        old = await Driver(root).start()
        await watched.connected()
        await old.stop()
        await eventually(lambda: watched.plugins.find(NAME) is None)
        await clock.advance(AWAY_SECONDS - 1)
        new = await Driver(root).start()
        await watched.connected()
        await clock.advance(2 * AWAY_SECONDS)
        assert watched.removed == []
        await new.stop()


def test_the_table_covers_every_state() -> None:
    assert {before for before, _ in TRANSITIONS} == {*RegistrationState}
    assert {event for _, event in TRANSITIONS} == {*RegistrationEvent}
