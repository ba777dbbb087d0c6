"""Recordings and traces run once more in a simulated cluster, as they were or with a change, and what came of it.

`timeline` makes steps of a followed recording, `replaying` takes them, `measures` counts while it does, `report` and `page`
show the figures of one run or of two. `traces` makes recordings of generated load and of public traces.
"""

from dray.replay.measures import Figures, Meter
from dray.replay.replaying import Replay, Replayed, Setup
from dray.replay.timeline import timeline_of

__all__ = ["Figures", "Meter", "Replay", "Replayed", "Setup", "timeline_of"]
