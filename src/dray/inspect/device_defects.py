"""Why devices are not to be had although nobody has them: taints, ill health, pools that cannot be used.

Health stands in the status of the pods that use devices, as drivers told it to nodes. Pure. Left out: counting (`occupancy`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dray.api import podclaims
from dray.api.allocations import DeviceId
from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.wording import say
from dray.api.taints import selects
from dray.api.types.core import Pod, ResourceHealth
from dray.api.types.resource import Device, DeviceTaint, DeviceTaintRule, ResourceClaim
from dray.inspect.shortage import taint_text
from dray.inspect.snapshot import Snapshot

_KEEPS_OUT = ("NoSchedule", "NoExecute")
_UNHEALTHY = "Unhealthy"


class DeviceDefects:
    """What is wrong with the devices of a cluster."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._rules = snapshot.all(DeviceTaintRule)
        self._unhealthy = dict(_unhealthy(snapshot))

    def health(self, device: DeviceId) -> str | None:
        """What its driver says of a device that is not healthy, which may be nothing; None for all others."""
        return self._unhealthy.get(device)

    def taints(self, id_: DeviceId, device: Device) -> tuple[str, ...]:
        """The taints that keep new pods away, each with the rule that adds it."""
        return tuple(self._taint(id_, taint) for taint in device.taints if taint.effect in _KEEPS_OUT)

    def _taint(self, id_: DeviceId, taint: DeviceTaint) -> str:
        names = [
            rule.metadata.name
            for rule in self._rules
            if (rule.spec.taint.key, rule.spec.taint.effect) == (taint.key, taint.effect) and selects(rule, *id_)
        ]
        return taint_text(taint) + (say(CausePhrase.BY_RULES, names=", ".join(names)) if names else "")


def counted(whys: Sequence[str], phrase: CausePhrase) -> str:
    """How many devices have something, and what, each once: `2 tainted: fan:NoSchedule`."""
    names = "; ".join(dict.fromkeys(why for why in whys if why))
    return say(phrase, count=len(whys), names=f": {names}" if names else "")


def _unhealthy(snapshot: Snapshot) -> Iterator[tuple[DeviceId, str]]:
    claims = {(c.metadata.namespace, c.metadata.name): c for c in snapshot.all(ResourceClaim)}
    for pod in snapshot.all(Pod):
        for status in (*pod.status.initContainerStatuses, *pod.status.containerStatuses):
            for told in status.allocatedResourcesStatus:
                devices = _devices(snapshot, pod, told.name, claims)
                for one in told.resources:
                    device = _meant(one, devices) if one.health == _UNHEALTHY else None
                    if device is not None:
                        yield device, one.message or ""


def _devices(
    snapshot: Snapshot, pod: Pod, name: str, claims: Mapping[tuple[str, str], ResourceClaim]
) -> list[DeviceId]:
    """The devices of an entry of a container's status, `claim:ENTRY[/REQUEST]`."""
    entry, _, request = name.removeprefix("claim:").partition("/")
    uses = podclaims.uses_of(pod, snapshot.group_of(pod))
    used = next((use.claim for use in uses if use.entry == entry), None)
    claim = claims.get((pod.metadata.namespace, used or ""))
    if claim is None or claim.status.allocation is None:
        return []
    return [
        DeviceId(result.driver, result.pool, result.device)
        for result in claim.status.allocation.devices.results
        if not request or result.request.partition("/")[0] == request
    ]


def _meant(health: ResourceHealth, devices: list[DeviceId]) -> DeviceId | None:
    """The device that an entry speaks of: by its name, or the only one that there is."""
    named = next((device for device in devices if str(device) == health.resourceID), None)
    return named or (devices[0] if len(devices) == 1 else None)
