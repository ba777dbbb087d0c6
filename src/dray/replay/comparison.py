"""Two runs of the same load, or a run and what was recorded, pod by pod: which placements differ. Pure."""

from __future__ import annotations

import msgspec

from dray.replay.measures import PlacedAt
from dray.replay.timeline import Timeline


class Difference(msgspec.Struct, frozen=True):
    """A pod that went elsewhere, got other devices, or got a place in one of two runs only (None: no place)."""

    pod: str
    before: PlacedAt | None
    after: PlacedAt | None


class RunComparison(msgspec.Struct, frozen=True):
    """Two runs of the same load, pod by pod."""

    same: int
    differences: tuple[Difference, ...]


def compare(before: dict[str, PlacedAt], after: dict[str, PlacedAt]) -> RunComparison:
    """What is different after a change."""
    found = []
    for uid in {**before, **after}:
        old, new = before.get(uid), after.get(uid)
        there = [one for one in (old, new) if one is not None]
        if len({(one.node, one.devices) for one in there}) > 1 or len(there) < 2:
            found.append(Difference(there[0].pod, old, new))
    return RunComparison(len({**before, **after}) - len(found), tuple(found))


def recorded_placements(timeline: Timeline) -> dict[str, PlacedAt]:
    """The placements that were decided in a recording."""
    return {
        uid: PlacedAt(story.name, story.node, story.held, story.arrived or 0.0, story.decided)
        for uid, story in timeline.stories.items()
        if story.decided is not None
    }
