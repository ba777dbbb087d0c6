"""Device selectors in CEL: compile an expression once, ask it about many devices.

>>> selector = compile_selector('device.attributes["gpu.example.com"].model == "a100"')
>>> selector.error is None, selector.max_cost
(True, 5)

Expressions mean what they mean to Kubernetes 1.37: same answers, same errors, same costs. Nothing
here does input or output, and no expression can run away: text, nesting, cost and the size of
values are limited, and an evaluation can be interrupted.
"""

from dray.cel.device import DeviceView
from dray.cel.environment import STORED
from dray.cel.environment import CelFeatures as Features
from dray.cel.errors import CelError, CompileError, CostExceeded, EvaluationError, Interrupted, NoSuchKey
from dray.cel.limits import MAX_COST, MAX_LENGTH, Interrupt
from dray.cel.selector import Outcome, Refusal, Selector, check_selector, compile_selector

__all__ = [
    "MAX_COST",
    "MAX_LENGTH",
    "STORED",
    "CelError",
    "CompileError",
    "CostExceeded",
    "DeviceView",
    "EvaluationError",
    "Features",
    "Interrupt",
    "Interrupted",
    "NoSuchKey",
    "Outcome",
    "Refusal",
    "Selector",
    "at",
    "check_selector",
    "compile_selector",
]
