"""A cluster's hardware, played: nodes that are ready at once, drivers that publish devices, pods that run by the clock.

Everything goes through the API as it would with real nodes, so schedulers and controllers cannot tell the difference.
Nothing is executed; `dray node` runs processes.
"""

from dray.sim.nodes import SimulatedNodes

__all__ = ["SimulatedNodes"]
