"""Devices that a request asks for and amounts that a claim holds, as used in causes."""

from __future__ import annotations

import msgspec


class RequestedDevices(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request for `needed` devices of a class.

    `resource` is set for a claim created for extended resources, `template` for a claim created from a template.
    """

    claim: str
    request: str
    device_class: str
    needed: int
    resource: str = ""
    template: str = ""


class HeldAmount(msgspec.Struct, frozen=True, omit_defaults=True):
    """Total amount that a claim holds of a counter of a pool, or of the capacity of a device if `counter_set` is
    empty.

    `place` is the pool (driver/pool) or the device (driver/pool/device).
    """

    place: str
    name: str
    amount: str
    counter_set: str = ""


class ClaimAmount(msgspec.Struct, frozen=True):
    """Part of an exhausted amount that one claim (namespace/name) holds."""

    claim: str
    held: HeldAmount
