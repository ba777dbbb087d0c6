"""Protocol for pure functions that need external values: they raise `Lacking`, the caller obtains the values and
runs them again.

`dray.background.resolver` obtains the values.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

KnownValues = dict[Hashable, Any]
"""Obtained values by the keys of their needs."""


class StepNeed:
    """A value that a pure function cannot compute itself. The subclass determines how the value is obtained."""

    key: Hashable


class Lacking(Exception):
    """A function needs further values. The caller must add them to `known` and run the function again."""

    def __init__(self, known: KnownValues, *needs: StepNeed) -> None:
        super().__init__(", ".join(type(need).__name__ for need in needs))
        self.known = known
        self.needs = needs
