"""Reconcilers: one module each, all of them clients of the API server and of nothing else.

`ControllerManager(client).run()` runs them; `registry` lists them.
"""

from dray.controllers.context import ControllerContext, Runnable
from dray.controllers.manager import ControllerManager
from dray.controllers.registry import CONTROLLERS

__all__ = ["CONTROLLERS", "ControllerContext", "ControllerManager", "Runnable"]
