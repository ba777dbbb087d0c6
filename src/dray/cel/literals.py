"""Parses literals: numbers with range checks, and strings with quotes and escapes."""

from __future__ import annotations

import math
import re

from dray.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)


class LiteralError(ValueError):
    """The literal is invalid; the message gives the reason."""


def integer(text: str) -> int:
    """Parse an int literal, which may be negative. Raises LiteralError if it is out of range.

    Text with `0x` is hexadecimal. Text of 80 or more characters is out of range.
    """
    value = int(text, 16 if "0x" in text else 10) if len(text) < 80 else INT_MAX + 1
    if not INT_MIN <= value <= INT_MAX:
        raise LiteralError("invalid int literal")
    return value


def unsigned(text: str) -> Uint:
    """Parse a uint literal, which ends in u. Raises LiteralError if it is out of range.

    Text with `0x` is hexadecimal. Text of 80 or more characters is out of range.
    """
    value = int(text[:-1], 16 if text.startswith("0x") else 10) if len(text) < 80 else UINT_MAX + 1
    if value > UINT_MAX:
        raise LiteralError("invalid uint literal")
    return Uint(value)


def double(text: str) -> float:
    """Parse a double literal, which may be negative. Raises LiteralError if it is out of range."""
    value = float(text)
    if math.isinf(value):
        raise LiteralError("invalid double literal")
    return value


def string(text: str) -> str:
    """Parse a string literal. Returns its text without quotes and escapes; raises LiteralError for an invalid escape."""
    body, raw = _unquote(text)
    return body if raw else _ESCAPE.sub(_character, body)


def octets(text: str) -> bytes:
    """Parse a bytes literal, which begins with b. Raises LiteralError for an invalid escape."""
    body, raw = _unquote(text[1:])
    if raw:
        return body.encode()
    parts: list[bytes] = []
    position = 0
    for match in _ESCAPE.finditer(body):
        parts += [body[position : match.start()].encode(), _octet(match)]
        position = match.end()
    return b"".join([*parts, body[position:].encode()])


def _unquote(text: str) -> tuple[str, bool]:
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    return text[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n"), raw


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        value = int(code, 16)
        if value > 0x10FFFF or 0xD800 <= value <= 0xDFFF:
            raise LiteralError("unable to unescape string")
        return chr(value)
    return chr(int(match[4], 8)) if match[4] else _SIMPLE.get(match[5], match[5])


def _octet(match: re.Match[str]) -> bytes:
    if match[2] or match[3]:
        raise LiteralError("unable to unescape string")
    if match[1]:
        return bytes([int(match[1], 16)])
    return bytes([int(match[4], 8)]) if match[4] else _SIMPLE.get(match[5], match[5]).encode()
