"""How a pure step says what it lacks: it raises `Lacking`, is given what it needs, and runs again from its beginning.

Left out: how needs are met (`dray.background.resolver`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

KnownValues = dict[Hashable, Any]
"""What steps need, by the keys of their needs."""


class StepNeed:
    """A value that a step cannot compute where it runs. Its type says how the value is obtained."""

    key: Hashable


class Lacking(Exception):
    """A step needs values. They belong into `known`, where the step looks for them when it runs again."""

    def __init__(self, known: KnownValues, *needs: StepNeed) -> None:
        super().__init__(", ".join(type(need).__name__ for need in needs))
        self.known = known
        self.needs = needs
