"""Reasons why a selector matches no device, as data.

`dray.inspect.selectors` determines them; `cause_wording` formats them as text.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class SelectorCode(StrEnum):
    """Why a selector matches no device."""

    NAME_MISSING = "name-missing"
    VALUE_MISSING = "value-missing"
    PARTS_APART = "parts-apart"
    NOTHING_MEETS = "nothing-meets"


class Place(msgspec.Struct, frozen=True):
    """An attribute or capacity of devices; `kind` is "attributes" or "capacity"."""

    kind: str
    domain: str
    name: str


class SelectorFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a selector matches no device.

    `place` is the name that the selector uses and that none of `devices` devices has; `meant` is the name that
    was probably meant, and `known` lists existing names. `part` is the part of the expression that no device
    satisfies; `values` lists the values of the devices with their numbers of devices. `parts` has the number of
    devices that satisfy each part.
    """

    code: SelectorCode
    place: Place | None = None
    meant: Place | None = None
    devices: int = 0
    known: tuple[str, ...] = ()
    part: str = ""
    values: tuple[tuple[str, int], ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
