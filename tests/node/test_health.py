"""The health of devices: what was said last, for as long as it counts."""

from __future__ import annotations

from dray.client import ManualClock
from dray.node.checkpoint import CheckpointedDevice
from dray.node.claims import Granted
from dray.node.health import DeviceHealthCache, HealthCondition, resource_statuses
from dray.rpc.health_pb2 import DeviceHealth as Message
from dray.rpc.health_pb2 import DeviceIdentifier


def said(device: str, health: int, *, timeout: int = 0, message: str = "") -> Message:
    identity = DeviceIdentifier(pool_name="p", device_name=device)
    return Message(device=identity, health=health, health_check_timeout_seconds=timeout, message=message)  # type: ignore[arg-type]  # an enum is a number


class Told(DeviceHealthCache):
    """Counts changes, and takes what a stream would bring."""

    def __init__(self, clock: ManualClock) -> None:
        self.changes = 0
        super().__init__(clock, self._count)

    def _count(self) -> None:
        self.changes += 1

    def take(self, *messages: Message) -> None:
        self._take("d", [*messages])


async def test_the_last_word_counts() -> None:
    health = Told(ManualClock())
    assert health.of("d", "p", "0") is None
    health.take(said("0", 1), said("1", 2, message="hot"))
    assert health.of("d", "p", "0") == HealthCondition("Healthy")
    assert health.of("d", "p", "1") == HealthCondition("Unhealthy", "hot")
    assert health.of("d", "p", "never mentioned") == HealthCondition("Unknown")
    assert health.changes == 1
    health.take(said("0", 1))
    assert health.changes == 1
    health.take(said("0", 0))
    assert (health.of("d", "p", "0"), health.changes) == (HealthCondition("Unknown"), 2)


async def test_silence_means_unknown_after_a_while() -> None:
    clock = ManualClock()
    health = Told(clock)
    health.take(said("short", 1, timeout=5), said("long", 1))
    await clock.advance(6)
    assert (health.of("d", "p", "short"), health.of("d", "p", "long")) == (
        HealthCondition("Unknown"),
        HealthCondition("Healthy"),
    )
    assert health.changes == 2
    await clock.advance(20)
    health.take(said("long", 1))
    await clock.advance(20)
    assert health.of("d", "p", "long") == HealthCondition("Healthy")
    await clock.advance(11)
    assert health.of("d", "p", "long") == HealthCondition("Unknown")


async def test_the_status_of_a_containers_devices() -> None:
    health = Told(ManualClock())
    grants = [
        Granted("d", "claim", "gpu", CheckpointedDevice((), "p", "0", ("v/c=0", "v/c=0b"))),
        Granted("d", "claim", "", CheckpointedDevice((), "p", "1")),
        Granted("silent", "claim", "gpu", CheckpointedDevice((), "p", "2")),
    ]
    assert resource_statuses(grants, health) == []
    health.take(said("0", 1))
    assert resource_statuses(grants, health) == [
        {"name": "claim:claim/gpu", "resources": [{"resourceID": "v/c=0", "health": "Healthy"}]},
        {"name": "claim:claim", "resources": [{"resourceID": "d/p/1", "health": "Unknown"}]},
    ]
