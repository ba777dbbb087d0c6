"""Sorted keys of one collection ("pods/…") with fast changes and fast ranges.

Adding and removing take O(1); the order is restored by the next range query. Most writes change existing keys and
do not affect this list. The cache knows which keys exist: a range may still contain keys that were just removed.
"""

from bisect import bisect_left, bisect_right, insort

_FEW = 32  # up to this number of new keys, single insertions are faster than sorting the whole list
_MANY_DEAD = 1000  # removed keys that may remain before the list is rebuilt


class SortedKeys:
    """The sorted keys of one collection."""

    def __init__(self) -> None:
        self._sorted: list[str] = []
        self._added: list[str] = []
        self._dead: set[str] = set()

    def add(self, key: str) -> None:
        if key in self._dead:
            self._dead.remove(key)
        else:
            self._added.append(key)

    def remove(self, key: str) -> None:
        self._dead.add(key)

    def removed(self, prefix: str, after: str = "") -> int:
        """Return the number of removed keys with the prefix that are greater than `after`."""
        return sum(key > after and key.startswith(prefix) for key in self._dead)

    def range(self, prefix: str, after: str = "") -> list[str]:
        """Return the keys with the prefix (ending in a slash, or empty) that are greater than `after`."""
        self._settle()
        keys = self._sorted
        low = bisect_right(keys, after) if after >= prefix else bisect_left(keys, prefix)
        high = bisect_left(keys, prefix[:-1] + "0", low) if prefix else len(keys)  # "0" follows "/"
        return keys[low:high]

    def forget_removed(self) -> None:
        """Rewrite the list if many of its keys are removed ones: a list that nobody reads would keep them."""
        self._settle(_FEW)

    def _settle(self, most_dead: int = _MANY_DEAD) -> None:
        if len(self._dead) > max(most_dead, len(self._sorted) // 8):
            self._sorted = [key for key in self._sorted if key not in self._dead]
            self._added = [key for key in self._added if key not in self._dead]
            self._dead.clear()
        if len(self._added) <= _FEW:
            for key in self._added:
                insort(self._sorted, key)
        else:
            self._sorted += self._added
            self._sorted.sort()
        self._added.clear()
