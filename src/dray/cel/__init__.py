"""Device selectors in CEL: compile an expression once, ask it about many devices.

>>> from dray.cel import compile_selector
>>> selector = compile_selector('device.attributes["gpu.example.com"].model == "a100"')
>>> selector.error is None, selector.max_cost
(True, 5)

Expressions mean what they mean to Kubernetes 1.37: same answers, same errors, same costs. Nothing
here does input or output, and no expression can run away: text, nesting, cost and the size of
values are limited, and an evaluation can be interrupted.
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
        "environment": (
            "STORED",
            "CelFeatures",
        ),
        "errors": (
            "CelError",
            "CompileError",
            "CostExceeded",
            "EvaluationError",
            "Interrupted",
            "NoSuchKey",
        ),
        "limits": (
            "MAX_COST",
            "MAX_LENGTH",
            "Interrupt",
        ),
        "selector": (
            "Outcome",
            "Refusal",
            "Selector",
            "check_selector",
            "compile_selector",
        ),
    },
)
