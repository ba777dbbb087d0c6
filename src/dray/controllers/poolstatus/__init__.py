"""Answers ResourcePoolStatusRequests: how much of a driver's pools is in use (KEP-5677).

`computation` counts, `validation` judges pools, `controller` answers. The first two are pure and serve the commands too.
"""

from dray.controllers.poolstatus.controller import PoolStatusController

__all__ = ["PoolStatusController"]
