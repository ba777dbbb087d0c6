"""Comparison of two runs of the same load, or of a run with the recording, pod by pod. No I/O."""

from __future__ import annotations

import msgspec

from dray.replay.measures import PlacedAt
from dray.replay.timeline import Timeline


class Difference(msgspec.Struct, frozen=True):
    """A pod placed on another node, with other devices, or in only one of two runs (None: not placed)."""

    pod: str
    before: PlacedAt | None
    after: PlacedAt | None


class RunComparison(msgspec.Struct, frozen=True):
    """Number of equal placements, and the differences."""

    same: int
    differences: tuple[Difference, ...]


def compare(before: dict[str, PlacedAt], after: dict[str, PlacedAt]) -> RunComparison:
    """Compare placements by pod uid before and after a change."""
    found = []
    for uid in {**before, **after}:
        old, new = before.get(uid), after.get(uid)
        there = [one for one in (old, new) if one is not None]
        if len({(one.node, one.devices) for one in there}) > 1 or len(there) < 2:
            found.append(Difference(there[0].pod, old, new))
    return RunComparison(len({**before, **after}) - len(found), tuple(found))


def recorded_placements(timeline: Timeline) -> dict[str, PlacedAt]:
    """Return the placements that were decided during the recording, by pod uid."""
    return {
        uid: PlacedAt(story.name, story.node, story.held, story.arrived or 0.0, story.decided)
        for uid, story in timeline.stories.items()
        if story.decided is not None
    }
