"""Reconcilers: one module each, all of them clients of the API server and of nothing else.

`ControllerManager(client).run()` runs them; `registry` lists them. Names are loaded when they are first asked for, since
simulations use single modules of this package and run no reconciler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dray.controllers.context import ControllerContext, Runnable
    from dray.controllers.manager import ControllerManager
    from dray.controllers.registry import CONTROLLERS

__all__ = ["CONTROLLERS", "ControllerContext", "ControllerManager", "Runnable"]

_HOMES = {
    "CONTROLLERS": "registry",
    "ControllerContext": "context",
    "ControllerManager": "manager",
    "Runnable": "context",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
