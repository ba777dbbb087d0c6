"""Simulated clusters: in memory under virtual time (`Cluster`), and as API objects (`SimulatedNodes`).

`Cluster` decides with the scheduler's own code and asks nobody. `SimulatedNodes` go through the API as real nodes would, so
schedulers and controllers cannot tell the difference. Nothing is executed; `dray node` runs processes. Recordings, replays,
autoscaling, the conformance kit for drivers and benchmarks are packages of their own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dray.sim.cluster import Cluster, Explanation
    from dray.sim.nodes import SimulatedNodes
    from dray.sim.watching import Observer

_HOMES = {"Cluster": "cluster", "Explanation": "cluster", "Observer": "watching", "SimulatedNodes": "nodes"}
__all__ = ["Cluster", "Explanation", "Observer", "SimulatedNodes"]


def __getattr__(name: str) -> Any:
    """Import what is asked for, and only that: simulated nodes need no scheduler."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
