"""What a claim asks for and holds, as causes tell it: devices of a request, amounts of counters and capacity."""

from __future__ import annotations

import msgspec


class RequestedDevices(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request asks for: `needed` devices of a class.

    `resource` is set for a claim that is made for extended resources, `template` for one that comes from a template.
    """

    claim: str
    request: str
    device_class: str
    needed: int
    resource: str = ""
    template: str = ""


class HeldAmount(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a claim has in all: of a counter of a pool, or (without `counter_set`) of the capacity of a device.

    `place` is the pool or the device, written driver/pool and driver/pool/device.
    """

    place: str
    name: str
    amount: str
    counter_set: str = ""


class ClaimAmount(msgspec.Struct, frozen=True):
    """What one claim, written namespace/name, holds of an amount that ran out."""

    claim: str
    held: HeldAmount
