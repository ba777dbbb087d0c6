"""What validation needs to know besides the object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from dray.api.gates import FeatureGates
from dray.api.validation.memory import Memory


class Complaint(NamedTuple):
    """What is wrong with a device selector, in Kubernetes' words, and how that is reported."""

    reason: Literal["Invalid", "Forbidden", "InternalError"]
    text: str


SelectorCheck = Callable[[str], Complaint | None]


def accept_any(expression: str) -> Complaint | None:
    """The check of those who have no expression language at hand: clients, tools."""
    return None


@dataclass(frozen=True)
class Context:
    """How strict to be: gates, the version that the client speaks, and the checker of selectors."""

    gates: FeatureGates
    check_selector: SelectorCheck = accept_any
    version: str = ""
    memory: Memory = field(default_factory=Memory, compare=False, repr=False)
