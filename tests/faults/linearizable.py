"""Whether a recorded history of one register is linearizable: could its operations have happened one after the other?

Each operation takes effect at one moment between its beginning and its end. An operation without an answer may have taken
effect at any moment after its beginning, or never. All values that are written differ, so a value names its write. The search
is that of Wing and Gong: take operations that began before any open one ended, and go back where that leads nowhere; positions
(which operations are done, and the value) that led nowhere are remembered. Left out: recording histories (`histories`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

READ, WRITE, SWAP = "read", "write", "swap"
OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"


@dataclass(frozen=True)
class Operation:
    """What a client did and was told. `value` was read or written; a swap writes only where `expected` is the value."""

    kind: str
    value: str
    begun: float
    ended: float = inf
    outcome: str = OK
    expected: str = ""

    def after(self, value: str) -> str | None:
        """The value after the operation was done with this one before; None if the answer contradicts it."""
        match self.kind, self.outcome:
            case "read", _:
                return value if value == self.value else None
            case "write", "refused":
                return value
            case "write", _:
                return self.value
            case _, "refused":
                return value if value != self.expected else None
            case _:
                return self.value if value == self.expected else None

    def __str__(self) -> str:
        expected = f" where {self.expected} was" if self.kind == SWAP else ""
        return f"[{self.begun:.4f}, {self.ended:.4f}] {self.kind} {self.value}{expected}: {self.outcome}"


def violation(history: Sequence[Operation], initial: str) -> str:
    """Why the history of a register is not linearizable: the operations around the first that fits nowhere; or empty."""
    operations = sorted(history, key=lambda operation: operation.begun)
    furthest = _search(operations, initial)
    if furthest is None:
        return ""
    around = operations[max(furthest - 8, 0) : furthest + 8]
    return "\n".join(map(str, around)) or "nothing"


def _search(operations: Sequence[Operation], initial: str) -> int | None:
    """None if all answered operations can be ordered, else the number of the operation that no order gets past."""
    answered = sum(1 << at for at, operation in enumerate(operations) if operation.ended < inf)
    unseen = _unseen(operations)
    seen: set[tuple[int, str]] = set()
    stack = [(0, initial)]
    furthest = 0
    while stack:
        done, value = stack.pop()
        if done & answered == answered:
            return None
        if (done, value) in seen:
            continue
        seen.add((done, value))
        candidates = _next(operations, done)
        furthest = max(furthest, (done & answered).bit_length())
        for at in reversed(_useful(operations, candidates, unseen, value)):
            after = operations[at].after(value)
            if after is not None:
                stack.append((done | 1 << at, after))
    return furthest


def _unseen(operations: Sequence[Operation]) -> set[int]:
    """The operations without an answer whose value nobody has seen."""
    seen = {operation.value for operation in operations if operation.kind == READ}
    seen |= {operation.expected for operation in operations if operation.kind == SWAP and operation.outcome != REFUSED}
    return {
        at for at, operation in enumerate(operations) if operation.outcome == UNKNOWN and operation.value not in seen
    }


def _useful(operations: Sequence[Operation], candidates: list[int], unseen: set[int], value: str) -> list[int]:
    """The candidates without those that explain nothing.

    A write that nobody has seen explains no more than that a swap was refused, and any such write explains that as well as
    another. Without this, the search would try every subset of them.
    """
    is_refused = any(operations[at].outcome == REFUSED and operations[at].expected == value for at in candidates)
    reasons = [at for at in candidates if at in unseen and operations[at].after(value) is not None]
    return [at for at in candidates if at not in unseen] + (reasons[:1] if is_refused else [])


def _next(operations: Sequence[Operation], done: int) -> list[int]:
    """The operations that may be next: they began before each that is not done has ended."""
    at = (~done & (done + 1)).bit_length() - 1  # the first that is not done
    found, first_end = [], inf
    for number in range(at, len(operations)):
        operation = operations[number]
        if operation.begun > first_end:
            break
        if not done >> number & 1:
            found.append(number)
            first_end = min(first_end, operation.ended)
    return found
