"""Limits the work of a patch, counted in steps before the work is done.

A patch of two kilobytes can copy values until an object has a million of them, move a long list with every operation,
or merge one element a thousand times. Therefore each patch has a budget of steps, charged for its results rather than
its size. A patch is first tried with the small budget that the event loop can afford; if that is exceeded, it is
applied in the worker thread, with a budget that suffices for the largest object.
"""

from __future__ import annotations

from dray.api.errors import TooLarge

MOST_STEPS = 1_200_000  # 0.2 seconds
QUICK_STEPS = 16_000  # 3 ms; results are no larger than other objects processed on the event loop
DEEPEST = 200  # levels, as for bodies
_COPIED_VALUE = 6  # steps; so no patch copies more than 200,000 values, while a body may have 150,000
_BYTES = 4  # bytes of copied text per step
_SHIFTED = 128  # elements of a list that are shifted in one step
_TAKEN_OVER = 32  # unchanged members of a container that are copied in one step
_MERGED_ELEMENT = 6  # steps, because each element is looked up several times


class TakesLong(Exception):
    """A patch needs more steps than the event loop can afford."""


class Effort:
    """Budget of steps that the work on one patch may still use."""

    def __init__(self, steps: int = MOST_STEPS, *, is_first: bool = False) -> None:
        self._left = steps
        self._is_first = is_first

    @classmethod
    def quick(cls) -> Effort:
        """Return the budget for an attempt on the event loop. Exceeding it raises TakesLong."""
        return cls(QUICK_STEPS, is_first=True)

    def spend(self, steps: int) -> None:
        """Subtract steps. If too few are left, raises TooLarge, or TakesLong for a quick budget."""
        self._left -= steps
        if self._left < 0:
            if self._is_first:
                raise TakesLong
            raise TooLarge("Request entity too large: what the patch makes of the object takes too much work")

    def copy(self, values: int, length: int) -> None:
        """Charge for copying values; `length` is their size in bytes as JSON."""
        self.spend(_COPIED_VALUE * values + length // _BYTES)

    def measure(self, members: int) -> None:
        """Charge for visiting all members of a container."""
        self.spend(1 + members)

    def own(self, members: int) -> None:
        """Charge for a shallow copy of a container."""
        self.spend(members // _TAKEN_OVER)

    def shift(self, elements: int) -> None:
        """Charge for shifting elements of a list by one position."""
        self.spend(elements // _SHIFTED)

    def merge_object(self, old: int, new: int) -> None:
        """Charge for merging a patch of `new` members into an object of `old` members."""
        self.spend(8 + old // _TAKEN_OVER + new)

    def merge_list(self, *lengths: int) -> None:
        """Charge for comparing the elements of lists."""
        self.spend(_MERGED_ELEMENT * sum(lengths))
