"""Health of devices as reported by drivers that offer this.

A driver streams complete lists; the health of a device expires if the driver does not report it again. Left out:
reactions. Health appears in the pod's status and in an event, and drivers taint unhealthy devices themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from dray.client import Clock
from dray.client.clock import Timer
from dray.node.claims import Granted
from dray.node.drivers import DriverConnection, DriverError
from dray.rpc.health_pb2 import DeviceHealth as Message

log = logging.getLogger(__name__)

HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"
_WORDS = {0: UNKNOWN, 1: HEALTHY, 2: UNHEALTHY}
_TIMEOUT_SECONDS = 30.0  # after which a report expires, unless the driver sets its own timeout
_RETRY_SECONDS = 5.0
_MESSAGE_CHARACTERS = 1024


class HealthCondition(NamedTuple):
    health: str
    message: str = ""


class _HealthEntry(NamedTuple):
    condition: HealthCondition
    until: float


class DeviceHealthCache:
    """Cache of the last reported health of every device. `changed` is called when the health of a device changes."""

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._entries: dict[tuple[str, str, str], _HealthEntry] = {}  # driver, pool, device
        self._speaking: set[str] = set()
        self._timer: Timer | None = None

    def of(self, driver: str, pool: str, device: str) -> HealthCondition | None:
        """Return the health of a device: Unknown without a current report, None if the driver reports no health.

        None also applies to a driver that is not known.
        """
        if driver not in self._speaking:
            return None
        entry = self._entries.get((driver, pool, device))
        return HealthCondition(UNKNOWN) if entry is None else entry.condition

    async def follow(self, driver: DriverConnection) -> None:
        """Receive a driver's health reports until cancelled, or until the driver answers that it has none.

        Returns at once for a driver without a health service. After an error it tries again later.
        """
        while driver.health_service:
            try:
                async for devices in driver.watch_health():
                    self._take(driver.name, devices)
            except DriverError as error:
                if error.unimplemented:
                    return
                log.debug("health of %s: %s", driver.name, error)
            await self._clock.sleep(_RETRY_SECONDS)

    def _take(self, driver: str, devices: list[Message]) -> None:
        """Store a driver's health reports, and call `changed` if the health of a device differs."""
        now = self._clock.monotonic()
        self._speaking.add(driver)
        told = dict(_read(driver, device, now) for device in devices)
        differs = any(
            key not in self._entries or self._entries[key].condition != e.condition for key, e in told.items()
        )
        self._entries |= told
        self._watch_the_clock()
        if differs:
            self._changed()

    def _watch_the_clock(self) -> None:
        """Schedule a recheck for when the oldest health report expires."""
        if self._timer is None and self._entries:
            soonest = min(entry.until for entry in self._entries.values())
            self._timer = self._clock.call_later(soonest - self._clock.monotonic(), self._expire)

    def _expire(self) -> None:
        now = self._clock.monotonic()
        self._timer = None
        current = {key: entry for key, entry in self._entries.items() if entry.until > now}
        if len(current) < len(self._entries):
            self._entries = current
            self._changed()
        self._watch_the_clock()


def _read(driver: str, device: Message, now: float) -> tuple[tuple[str, str, str], _HealthEntry]:
    timeout = device.health_check_timeout_seconds
    until = now + (timeout if timeout > 0 else _TIMEOUT_SECONDS)
    condition = HealthCondition(_WORDS.get(device.health, UNKNOWN), device.message[:_MESSAGE_CHARACTERS])
    return (driver, device.device.pool_name, device.device.device_name), _HealthEntry(condition, until)


def unhealthy(grants: Iterable[Granted], health: DeviceHealthCache) -> dict[str, str]:
    """Return a container's unhealthy devices (DRIVER/POOL/DEVICE), each with the driver's message.

    The message may be empty.
    """
    found = {}
    for grant in grants:
        condition = health.of(grant.driver, grant.device.pool, grant.device.device)
        if condition is not None and condition.health == UNHEALTHY:
            found[f"{grant.driver}/{grant.device.pool}/{grant.device.device}"] = condition.message
    return found


def resource_statuses(grants: Iterable[Granted], health: DeviceHealthCache) -> list[dict[str, Any]]:
    """Return a container's `allocatedResourcesStatus`: the health of its devices whose drivers report health.

    Names are those of extended resources, or `claim:CLAIM/REQUEST`, without `/REQUEST` if the container names none.
    """
    by_request: dict[str, list[dict[str, Any]]] = {}
    for grant in grants:
        condition = health.of(grant.driver, grant.device.pool, grant.device.device)
        if condition is None:
            continue
        name = grant.resource or f"claim:{grant.claim}" + (f"/{grant.request}" if grant.request else "")
        plain = f"{grant.driver}/{grant.device.pool}/{grant.device.device}"
        entry = {"resourceID": next(iter(grant.device.cdi), plain), "health": condition.health}
        by_request.setdefault(name, []).append(entry | {"message": condition.message} if condition.message else entry)
    return [{"name": name, "resources": resources} for name, resources in by_request.items()]
