"""Controllers, one module each. All of them are clients of the API server and use nothing else.

`ControllerManager(client).run()` runs them; `registry` lists them. Names are loaded on first use, since simulations
import single modules of this package and run no controller.
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
