"""Regular expressions, implemented with RE2: matching takes linear time and bounded memory for every pattern."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from dray.cel import types
from dray.cel.declarations import Function, function, method, overload
from dray.cel.errors import EvaluationError, NoSuchOverload
from dray.cel.prices import FINDING, MATCH
from dray.cel.types import list_of
from dray.cel.values import Value

# RE2's error messages, and the messages of Go's regexp package that Kubernetes returns.
_MESSAGES = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "unexpected )",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


_REMEMBERED = 256
_SHORT = 256


class RegexError(EvaluationError):
    """The pattern is not a valid regular expression."""


class Regex:
    """A compiled pattern. Match results of short texts are cached, because the same names occur in many devices."""

    __slots__ = ("_compiled", "_remembered")

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(pattern, options)
        except re2.error as error:
            raise RegexError(f"error parsing regexp: {_translate(error)}") from error
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._search)

    def _search(self, text: str) -> bool:
        return self._compiled.search(text.encode()) is not None

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches any part of the text."""
        return self._remembered(text) if len(text) <= _SHORT else self._search(text)

    def find(self, text: str) -> str:
        """Return the first match in the text, or an empty string."""
        found = self._compiled.search(text)
        return found.group() if found else ""

    def find_all(self, text: str, limit: int) -> list[Value]:
        """Return all matches in the text; at most `limit` of them unless `limit` is negative.

        An empty match directly after another match is left out.
        """
        found: list[Value] = []
        end = -1
        for match in self._compiled.finditer(text):
            if 0 <= limit <= len(found):
                break
            if match.start() == match.end() == end:
                continue  # skip an empty match directly after another match
            found.append(match.group())
            end = match.end()
        return found


@lru_cache(maxsize=256)
def compile_regex(pattern: str) -> Regex:
    """Compile a pattern, or return it from a cache. Raises RegexError.

    RegexError is raised if the pattern is invalid.
    """
    return Regex(pattern)


def _translate(error: Exception) -> str:
    raw = error.args[0] if error.args else ""
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    reason, _, part = text.partition(": ")
    return f"{_MESSAGES.get(reason, reason)}: `{part}`"


def matches(text: Value, pattern: Value) -> bool:
    """Evaluate `text.matches(pattern)`: whether the pattern matches any part of the text.

    Raises NoSuchOverload unless both are strings, RegexError if the pattern is invalid.
    """
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise NoSuchOverload
    return compile_regex(pattern).matches(text)


def _legal(pattern: str) -> Regex:
    try:
        return compile_regex(pattern)
    except RegexError as error:
        raise EvaluationError(f"Illegal regex: {error}") from error


def _find(text: str, pattern: str) -> Value:
    return _legal(pattern).find(text)


def _find_all(text: str, pattern: str, limit: int = -1) -> Value:
    return _legal(pattern).find_all(text, limit)


_S = types.STRING

STANDARD = (
    Function(
        "matches",
        (
            overload("matches", (_S, _S), types.BOOL, price=MATCH),
            method("matches_string", (_S, _S), types.BOOL, price=MATCH),
        ),
        matches,
        frozenset({str}),
    ),
)

FUNCTIONS = (
    function("find", method("string_find_string", (_S, _S), _S, _find), price=FINDING),
    function(
        "findAll",
        method("string_find_all_string", (_S, _S), list_of(_S), _find_all),
        method("string_find_all_string_int", (_S, _S, types.INT), list_of(_S), _find_all),
        price=FINDING,
    ),
)

# Constant patterns of these functions are compiled with the expression; an invalid pattern is a compile error.
PRECOMPILED = frozenset({"matches", "find", "findAll"})
