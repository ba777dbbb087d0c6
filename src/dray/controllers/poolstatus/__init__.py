"""Answers ResourcePoolStatusRequests: how much of a driver's pools is in use (KEP-5677).

`computation` counts, `validation` judges pools, `controller` answers; `pace` keeps the controller from asking too much
of the API server. The first two are pure and serve the commands too.
"""

from dray.controllers.poolstatus.controller import PoolStatusController

__all__ = ["PoolStatusController"]
