"""CEL expressions of device selectors: compile an expression once, evaluate it for many devices.

>>> from dray.cel import compile_selector
>>> selector = compile_selector('device.attributes["gpu.example.com"].model == "a100"')
>>> selector.error is None, selector.max_cost
(True, 5)

An expression gives the same results, errors and costs as in Kubernetes 1.37. This package does no input or output.
The length, nesting, cost and value sizes of an expression are limited, and a running evaluation can be interrupted.
"""

from typing import TYPE_CHECKING

from dray.lazy import lazily

if TYPE_CHECKING:
    from dray.cel.device import DeviceView
    from dray.cel.environment import STORED, CelFeatures
    from dray.cel.errors import CelError, CompileError, CostExceeded, EvaluationError, Interrupted, NoSuchKey
    from dray.cel.limits import MAX_COST, MAX_LENGTH, Interrupt
    from dray.cel.selector import Outcome, Refusal, Selector, check_selector, compile_selector

__all__ = [
    "MAX_COST",
    "MAX_LENGTH",
    "STORED",
    "CelError",
    "CelFeatures",
    "CompileError",
    "CostExceeded",
    "DeviceView",
    "EvaluationError",
    "Interrupt",
    "Interrupted",
    "NoSuchKey",
    "Outcome",
    "Refusal",
    "Selector",
    "check_selector",
    "compile_selector",
]

__getattr__ = lazily(
    __name__,
    {
        "device": ("DeviceView",),
        "environment": ("STORED", "CelFeatures"),
        "errors": ("CelError", "CompileError", "CostExceeded", "EvaluationError", "Interrupted", "NoSuchKey"),
        "limits": ("MAX_COST", "MAX_LENGTH", "Interrupt"),
        "selector": ("Outcome", "Refusal", "Selector", "check_selector", "compile_selector"),
    },
)
