"""Clusters that are played: in memory under virtual time (`Cluster`), and as API objects (`SimulatedNodes`).

`Cluster` decides with the scheduler's own code and asks nobody. `SimulatedNodes` go through the API as real nodes would, so
schedulers and controllers cannot tell the difference. Nothing is executed; `dray node` runs processes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dray.sim.cluster import Cluster, Explanation
    from dray.sim.history import History, history_from_bytes
    from dray.sim.measures import Figures, Meter
    from dray.sim.nodes import SimulatedNodes
    from dray.sim.replay import Replay, Setup
    from dray.sim.timeline import timeline_of
    from dray.sim.watching import Observer

_HOMES = {
    "Cluster": "cluster",
    "Explanation": "cluster",
    "Figures": "measures",
    "History": "history",
    "Meter": "measures",
    "Observer": "watching",
    "Replay": "replay",
    "Setup": "replay",
    "SimulatedNodes": "nodes",
    "history_from_bytes": "history",
    "timeline_of": "timeline",
}
__all__ = [
    "Cluster",
    "Explanation",
    "Figures",
    "History",
    "Meter",
    "Observer",
    "Replay",
    "Setup",
    "SimulatedNodes",
    "history_from_bytes",
    "timeline_of",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, and only that: simulated nodes need no scheduler, and a recording needs neither."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
