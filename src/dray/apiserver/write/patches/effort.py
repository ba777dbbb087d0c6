"""How much work a patch may be, counted in steps before the work is done.

A patch of two kilobytes can copy until an object has a million values, move a long list at every operation, or merge one
element a thousand times. So each patch has an effort to spend, and what it makes counts, not what was sent. A patch is
first tried with the little that the event loop has time for; if that is not enough, it is applied beside the loop, with
what the largest object needs. Left out: where a patch is applied.
"""

from __future__ import annotations

from dray.api.errors import TooLarge

MOST_STEPS = 1_200_000  # a fifth of a second
QUICK_STEPS = 16_000  # three milliseconds, and what is made is no larger than other objects on the loop
DEEPEST = 200  # levels, as of bodies
_COPIED_VALUE = 6  # steps: no patch copies more values than a body may have (150,000)
_BYTES = 4  # of copied text that are one step
_SHIFTED = 128  # elements of a list that move up or down in one step
_TAKEN_OVER = 32  # members of a container that are taken over as they are in one step
_MERGED_ELEMENT = 6  # steps: each is looked up several times


class TakesLong(Exception):
    """A patch needs more effort than the event loop has time for."""


class Effort:
    """The steps that one patch has left."""

    def __init__(self, steps: int = MOST_STEPS, *, is_first: bool = False) -> None:
        self._left = steps
        self._is_first = is_first

    @classmethod
    def quick(cls) -> Effort:
        """The effort of an attempt on the event loop, which raises TakesLong at its end."""
        return cls(QUICK_STEPS, is_first=True)

    def spend(self, steps: int) -> None:
        """Count steps. Raises TooLarge where there are not as many left."""
        self._left -= steps
        if self._left < 0:
            if self._is_first:
                raise TakesLong
            raise TooLarge("Request entity too large: what the patch makes of the object takes too much work")

    def copy(self, values: int, length: int) -> None:
        """Count the copy of so many values, which are so many bytes long as JSON."""
        self.spend(_COPIED_VALUE * values + length // _BYTES)

    def measure(self, members: int) -> None:
        """Count a container whose members are looked at."""
        self.spend(1 + members)

    def own(self, members: int) -> None:
        """Count a container that is copied before it is changed, without what is in it."""
        self.spend(members // _TAKEN_OVER)

    def shift(self, elements: int) -> None:
        """Count elements of a list that move by one place."""
        self.spend(elements // _SHIFTED)

    def merge_object(self, old: int, new: int) -> None:
        """Count an object of some members that a patch of some members is laid over."""
        self.spend(8 + old // _TAKEN_OVER + new)

    def merge_list(self, *lengths: int) -> None:
        """Count lists whose elements are compared."""
        self.spend(_MERGED_ELEMENT * sum(lengths))
