"""What validation needs to know besides the object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dray.api.gates import FeatureGates
from dray.api.validation.memory import Memory

# What is wrong with a device selector: None, or Kubernetes' text. The texts about cost forbid, all others are invalid.
SelectorCheck = Callable[[str], str | None]
TOO_COMPLEX = "too complex"


def accept_any(expression: str) -> str | None:
    """The check of those who have no expression language at hand: clients, tools."""
    return None


@dataclass(frozen=True)
class Context:
    """How strict to be: gates, the version that the client speaks, and the checker of selectors."""

    gates: FeatureGates
    check_selector: SelectorCheck = accept_any
    version: str = ""
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)
