"""Why a selector matches no device: an unknown name, a value that no device has, or parts never satisfied together.

Splits an expression at its `&&` and counts the devices that match each part. Left out: selectors that match some
devices but too few, since such selectors are not wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dray.api.reasons.selector_faults import Place, SelectorCode, SelectorFault
from dray.inspect.expressions import AttributeAccess, accesses, conjuncts, in_words
from dray.inspect.hardware import Hardware, Published, matching


def missing_name(expression: str, hardware: Hardware) -> SelectorFault | None:
    """Return the fault for the first attribute or capacity that no device has, or None.

    None if the devices have all names.
    """
    for access in accesses(expression):
        if access[:3] not in hardware.values:
            return _missing(access, hardware)
    return None


def _missing(access: AttributeAccess, hardware: Hardware) -> SelectorFault:
    known = tuple(sorted({name for kind, _, name in hardware.values if kind == access.kind}))
    return SelectorFault(
        SelectorCode.NAME_MISSING,
        place=Place(*access[:3]),
        meant=hardware.suggestion(access),
        devices=len(hardware.devices),
        known=known,
    )


def fault_of(expression: str, devices: Sequence[Published], hardware: Hardware) -> SelectorFault:
    """Return the reason why none of these devices matches the expression."""
    named = missing_name(expression, hardware)
    if named is not None:
        return named
    parts = conjuncts(expression)
    counts = {part: len(matching(devices, [part], hardware.meter).passed) for part in parts}
    empty = next((part for part in parts if not counts[part]), None)
    if empty is not None:
        return _valueless(empty, devices)
    if len(parts) > 1:
        counted = tuple((in_words(part), count) for part, count in counts.items())
        return SelectorFault(SelectorCode.PARTS_APART, parts=counted)
    return SelectorFault(SelectorCode.NOTHING_MEETS, part=in_words(expression))


def _valueless(part: str, devices: Sequence[Published]) -> SelectorFault:
    """Return the fault for a part that no device matches, with the values that devices have instead.

    The values are pairs of value and count, most common first; empty unless the part uses exactly one name.
    """
    used, words = accesses(part), in_words(part)
    if len(used) != 1:
        return SelectorFault(SelectorCode.VALUE_MISSING, part=words)
    place = Place(*used[0][:3])
    found = Counter(value for one in devices if (value := value_at(one, place)) is not None)
    return SelectorFault(SelectorCode.VALUE_MISSING, part=words, place=place, values=tuple(found.most_common()))


def value_at(one: Published, place: Place) -> str | None:
    """Return the value of a device's attribute or capacity as text, or None if the device lacks it."""
    places = one.view.attributes if place.kind == "attributes" else one.view.capacity
    named = places.get(place.domain, {})
    return str(named[place.name]) if place.name in named else None
