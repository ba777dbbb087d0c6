"""Parts of objects that were found right, so that the thousandth pod of a workload is not judged like the first.

Only what depends on nothing but itself may be remembered, and only that it is right: what is wrong is judged again and
named again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from dray.api.errors import FieldError
from dray.api.wire import Wire

KEPT = 1024  # different specs at a time; the oldest is forgotten first

_encode = msgspec.msgpack.Encoder().encode


class Memory:
    """What was found right."""

    def __init__(self) -> None:
        self._right: dict[tuple[type, bytes], None] = {}
        self._last: dict[type, Wire] = {}  # pods of one template may even share their spec

    def judge(self, part: Wire, rules: Callable[[], Iterable[FieldError]]) -> Iterable[FieldError]:
        """The errors of a part, without asking the rules about one that is known to have none."""
        type_ = type(part)
        if self._last.get(type_) is part:
            return ()
        key = type_, _encode(part)
        errors = [] if key in self._right else list(rules())
        if not errors:
            if key not in self._right and len(self._right) >= KEPT:
                del self._right[next(iter(self._right))]
            self._right[key] = None
            self._last[type_] = part
        return errors
