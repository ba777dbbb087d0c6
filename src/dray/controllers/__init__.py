"""Reconcilers: one module each, all of them clients of the API server and of nothing else.

`ControllerManager(client).run()` runs them; `registry` lists them. Names are loaded when they are first asked for, since
simulations use single modules of this package and run no reconciler.
"""

from typing import TYPE_CHECKING

from dray.lazy import lazily

if TYPE_CHECKING:
    from dray.controllers.context import ControllerContext, Runnable
    from dray.controllers.manager import ControllerManager
    from dray.controllers.registry import CONTROLLERS

__all__ = ["CONTROLLERS", "ControllerContext", "ControllerManager", "Runnable"]

__getattr__ = lazily(
    __name__,
    {
        "context": ("ControllerContext", "Runnable"),
        "manager": ("ControllerManager",),
        "registry": ("CONTROLLERS",),
    },
)
