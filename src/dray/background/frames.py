"""Message format between both processes: a length, then a pickled message. Both ends are the same program."""

from __future__ import annotations

import pickle
import struct

_LENGTH = struct.Struct(">Q")
HEAD = _LENGTH.size


def frame(*message: object) -> bytes:
    """Encode a message with its length in front. Raises a pickling error if a part cannot be pickled."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def length(head: bytes) -> int:
    """Return the number of bytes of the message that follows this head. The head itself does not count."""
    (size,) = _LENGTH.unpack(head)
    return int(size)
