"""Replays of recordings and traces in a simulated cluster, unchanged or with a change, and reports of the results.

`timeline` converts a followed recording to steps, `replaying` runs them, `measures` collects figures meanwhile, and
`report`
and `page` show the figures of one or two runs. `traces` creates recordings from generated load and from public
traces.
"""

from dray.replay.measures import Figures, Meter
from dray.replay.replaying import Replay, Replayed, Setup
from dray.replay.timeline import timeline_of

__all__ = ["Figures", "Meter", "Replay", "Replayed", "Setup", "timeline_of"]
