"""Whether the slices of a pool agree with each other: what a single slice cannot show.

The scheduler uses no device of a pool that is incomplete or invalid; whoever asks for the pool's status is told so, and
why. Pure. Left out: what is wrong within one slice, which the API server refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dray.api.types.resource import ResourceSlice

LONGEST_PROBLEM = 256  # bytes, as the API has it


def current(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """The slices of the newest generation of a pool; drivers delete older ones in their own time."""
    known = [*slices]
    newest = max((one.spec.pool.generation for one in known), default=0)
    return [one for one in known if one.spec.pool.generation == newest]


def problem_of(slices: Sequence[ResourceSlice]) -> str | None:
    """Why the current slices of a pool make none that can be used; None where they do."""
    expected = {one.spec.pool.resourceSliceCount for one in slices}
    if len(expected) > 1:
        listed = ", ".join(str(count) for count in sorted(expected))
        return f"slices disagree about the number of slices: {listed}"
    [count] = expected
    if len(slices) != count:
        return f"incomplete: {len(slices)} of {count} slices are published"
    return _published_twice(slices)


def _published_twice(slices: Sequence[ResourceSlice]) -> str | None:
    seen: set[str] = set()
    for one in slices:
        for device in one.spec.devices:
            if device.name in seen:
                return f"device {device.name} appears in multiple slices"
            seen.add(device.name)
    return None


def shortened(text: str) -> str:
    """At most as many bytes as the API takes; says where something was cut off."""
    if len(text.encode()) <= LONGEST_PROBLEM:
        return text
    return text.encode()[: LONGEST_PROBLEM - 3].decode(errors="ignore") + "..."
