"""Why a selector matches no device, as data. Left out: finding it out (`dray.inspect.selectors`), words (`cause_wording`)."""

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
    """An attribute or a capacity of devices: `kind` is attributes or capacity."""

    kind: str
    domain: str
    name: str


class SelectorFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong with a selector.

    `place` is the name that it uses and none of `devices` devices has; `meant` is probably the right one, and `known`
    are those that exist. `part` is the part of the expression that nothing meets, `values` says how many devices have
    which value there. `parts` says on how many devices each part holds.
    """

    code: SelectorCode
    place: Place | None = None
    meant: Place | None = None
    devices: int = 0
    known: tuple[str, ...] = ()
    part: str = ""
    values: tuple[tuple[str, int], ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
