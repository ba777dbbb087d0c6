"""Why a selector matches no device: the name that nobody has, the value that nobody has, the parts that never meet.

Takes an expression apart at its `&&` and counts what each part leaves. Left out: selectors that match too few devices
rather than none; then there is nothing wrong with the selector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dray.inspect.expressions import AttributeAccess, accesses, conjuncts, in_words
from dray.inspect.hardware import Hardware, Published, matching

_SHOWN = 4  # values that are listed


class Blame(NamedTuple):
    """What is wrong with a selector, and what would help; `help` is empty where nobody can tell."""

    text: str
    help: str = ""
    typo: bool = False
    unknown: bool = False  # the selector uses a name that no device has


def blame_name(expression: str, hardware: Hardware) -> Blame | None:
    """The first attribute or capacity that no device has."""
    for access in accesses(expression):
        if access[:3] not in hardware.values:
            return _missing(access, hardware)
    return None


def _missing(access: AttributeAccess, hardware: Hardware) -> Blame:
    text = f"{access.label} exists on 0 of {len(hardware.devices)} devices"
    meant = hardware.suggestion(access)
    if meant:
        return Blame(
            f"{text}, did you mean {meant}?", f"write {meant} instead of {access.name}", typo=True, unknown=True
        )
    known = sorted({name for kind, _, name in hardware.values if kind == access.kind})
    return Blame(
        f"{text}; there are {_listed(known)}" if known else text,
        f"use one of {_listed(known)}" if known else "",
        unknown=True,
    )


def blame_selector(expression: str, devices: Sequence[Published], hardware: Hardware) -> Blame:
    """Why none of these devices passes."""
    named = blame_name(expression, hardware)
    if named is not None:
        return named
    parts = conjuncts(expression)
    counts = {part: len(matching(devices, [part], hardware.deadline).passed) for part in parts}
    empty = next((part for part in parts if not counts[part]), None)
    if empty is not None:
        return Blame(f"no device has {in_words(empty)}{_values(empty, devices)}", f"devices with {in_words(empty)}")
    if len(parts) > 1:
        listed = ", ".join(f"{in_words(part)} on {count}" for part, count in counts.items())
        return Blame(f"no device meets all of it: {listed}", f"a device with {wording(expression)}")
    return Blame(f"no device meets {in_words(expression)}", f"devices with {in_words(expression)}")


def _values(part: str, devices: Sequence[Published]) -> str:
    """The values that the devices do have."""
    used = accesses(part)
    if len(used) != 1:
        return ""
    kind, domain, name = used[0][:3]
    found: Counter[str] = Counter()
    for one in devices:
        places = one.view.attributes if kind == "attributes" else one.view.capacity
        if name in places.get(domain, {}):
            found[str(places[domain][name])] += 1
    shown = [f"{value} on {count}" for value, count in found.most_common(_SHOWN)]
    more = [f"and {len(found) - _SHOWN} other values"] if len(found) > _SHOWN else []
    return f"; {name} is {', '.join([*shown, *more])}" if shown else f"; none of them has {name}"


def wording(expression: str) -> str:
    """A selector in words, as far as it has some: `model = a100, memory ≥ 40Gi`."""
    return ", ".join(in_words(part) for part in conjuncts(expression))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
