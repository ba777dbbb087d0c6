"""Free the memory of dictionaries that were large: Python never makes a dictionary smaller when entries are removed."""

from __future__ import annotations

import sys
from typing import Any

_BYTES_OF_AN_ENTRY = 256  # twice what an entry takes at the most in a dictionary that has just grown
_SMALL_BYTES = 16_384


def shrink(table: dict[Any, Any]) -> None:
    """Free the unused memory of a dictionary that is almost empty. No loop over the dictionary may be running."""
    if sys.getsizeof(table) > _SMALL_BYTES + len(table) * _BYTES_OF_AN_ENTRY:
        left = dict(table)
        table.clear()
        table.update(left)
