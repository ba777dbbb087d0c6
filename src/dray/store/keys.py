"""The sorted keys of one collection ("pods/…"), cheap to change and cheap to cut a range from.

Adding and removing are O(1); the order is restored when somebody lists. Most writes change existing keys and never come
here. Which key is alive is the cache's knowledge: a range may contain keys that were removed a moment ago.
"""

from bisect import bisect_left, bisect_right, insort

_FEW = 32  # up to here inserting one by one is faster than sorting a long, almost sorted list
_MANY_DEAD = 1000  # removed keys that may stay before the list is rewritten


class SortedKeys:
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
        """How many keys of that range are removed ones."""
        return sum(key > after and key.startswith(prefix) for key in self._dead)

    def range(self, prefix: str, after: str = "") -> list[str]:
        """The keys that start with `prefix` (which ends with a slash, or is empty) and are greater than `after`."""
        self._settle()
        keys = self._sorted
        low = bisect_right(keys, after) if after >= prefix else bisect_left(keys, prefix)
        high = bisect_left(keys, prefix[:-1] + "0", low) if prefix else len(keys)  # "0" follows "/"
        return keys[low:high]

    def _settle(self) -> None:
        if len(self._dead) > max(_MANY_DEAD, len(self._sorted) // 8):
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
