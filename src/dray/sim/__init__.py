"""Simulated clusters: in memory under virtual time (`Cluster`), and as API objects (`SimulatedNodes`).

`Cluster` decides with the scheduler's own code and needs no server. `SimulatedNodes` use the API like real nodes, so
schedulers and controllers cannot tell the difference. No processes are run; `dray node` does that. Recordings,
replays,
autoscaling, the conformance kit for drivers and benchmarks are separate packages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.lazy import lazily

if TYPE_CHECKING:
    from dray.sim.cluster import Cluster, Explanation
    from dray.sim.nodes import SimulatedNodes
    from dray.sim.watching import Observer

__all__ = ["Cluster", "Explanation", "Observer", "SimulatedNodes"]

__getattr__ = lazily(
    __name__, {"cluster": ("Cluster", "Explanation"), "nodes": ("SimulatedNodes",), "watching": ("Observer",)}
)
