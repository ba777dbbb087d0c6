"""How the two processes talk: a length, and a message that Python has pickled. Both ends are of the same program."""

from __future__ import annotations

import pickle
import struct

_LENGTH = struct.Struct(">Q")
HEAD = _LENGTH.size


def frame(*message: object) -> bytes:
    """A message with its length."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def length(head: bytes) -> int:
    """How many bytes the message has that follows these."""
    (size,) = _LENGTH.unpack(head)
    return int(size)
