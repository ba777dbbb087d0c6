"""String functions: the standard ones and the strings extension. `format` is implemented in `formatting`."""

from __future__ import annotations

from dray.cel import types
from dray.cel.declarations import Function, function, metered, method, overload
from dray.cel.errors import EvaluationError, NoSuchOverload
from dray.cel.library.formatting import format_text
from dray.cel.limits import EffortAccount
from dray.cel.prices import AFFIX, FORMATTING, JOINING, LIST_PASS, QUOTING, REPLACEMENT, SEARCH, SPLITTING, TEXT_PASS
from dray.cel.types import list_of
from dray.cel.values import Value, show

# Go's definition of white space, narrower than Python's.
_SPACE = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_QUOTES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_QUOTES |= {"\\": "\\\\", '"': '\\"'}
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def contains(text: Value, part: Value) -> bool:
    """Evaluate `text.contains(part)`. Raises NoSuchOverload unless both are strings."""
    if isinstance(text, str) and isinstance(part, str):
        return part in text
    raise NoSuchOverload


def starts_with(text: Value, prefix: Value) -> bool:
    """Evaluate `text.startsWith(prefix)`. Raises NoSuchOverload unless both are strings."""
    if isinstance(text, str) and isinstance(prefix, str):
        return text.startswith(prefix)
    raise NoSuchOverload


def ends_with(text: Value, suffix: Value) -> bool:
    """Evaluate `text.endsWith(suffix)`. Raises NoSuchOverload unless both are strings."""
    if isinstance(text, str) and isinstance(suffix, str):
        return text.endswith(suffix)
    raise NoSuchOverload


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> Value:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> Value:
    if start < 0:
        raise _out_of_range(start)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> Value:
    if not part:
        return len(text) if start is None else min(_positive(start), len(text))
    if start is None:
        start = len(text) - 1
        if len(text.encode()) < len(part.encode()):
            return -1
    if _positive(start) >= len(text):
        return -1
    return text.rfind(part, 0, start + len(part))


def _positive(index: int) -> int:
    if index < 0:
        raise _out_of_range(index)
    return index


@metered
def _replace(account: EffortAccount, text: str, old: str, new: str, limit: int = -1) -> Value:
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    account.spend_text(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, limit)


@metered
def _split(account: EffortAccount, text: str, separator: str, limit: int = -1) -> Value:
    if limit == 0:
        return []
    account.spend_elements(text.count(separator))
    if not separator:
        if limit < 0 or limit >= len(text):
            return list(text)
        return [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> Value:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if index is not None and not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


@metered
def _join(account: EffortAccount, parts: list[Value], separator: str = "") -> Value:
    for part in parts:
        if not isinstance(part, str):
            raise EvaluationError(f"join: invalid input: {show(part)}")
    texts: list[str] = parts  # type: ignore[assignment]  # each was just checked
    account.spend_text(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _quote(text: str) -> Value:
    return '"' + "".join(_QUOTES.get(char, char) for char in text) + '"'


_S, _I = types.STRING, types.INT

FUNCTIONS = (
    Function("contains", (method("contains_string", (_S, _S), types.BOOL, contains, price=SEARCH),), guarded=False),
    Function("endsWith", (method("ends_with_string", (_S, _S), types.BOOL, ends_with, price=AFFIX),), guarded=False),
    Function(
        "startsWith", (method("starts_with_string", (_S, _S), types.BOOL, starts_with, price=AFFIX),), guarded=False
    ),
)

EXTENSION = (
    function("charAt", method("string_char_at_int", (_S, _I), _S, _char_at)),
    function(
        "indexOf",
        method("string_index_of_string", (_S, _S), _I, _index_of),
        method("string_index_of_string_int", (_S, _S, _I), _I, _index_of),
        price=LIST_PASS,
    ),
    function(
        "lastIndexOf",
        method("string_last_index_of_string", (_S, _S), _I, _last_index_of),
        method("string_last_index_of_string_int", (_S, _S, _I), _I, _last_index_of),
        price=LIST_PASS,
    ),
    function(
        "lowerAscii", method("string_lower_ascii", (_S,), _S, lambda text: text.translate(_LOWER)), price=TEXT_PASS
    ),
    function(
        "replace",
        method("string_replace_string_string", (_S, _S, _S), _S, _replace),
        method("string_replace_string_string_int", (_S, _S, _S, _I), _S, _replace),
        price=REPLACEMENT,
    ),
    function(
        "split",
        method("string_split_string", (_S, _S), list_of(_S), _split),
        method("string_split_string_int", (_S, _S, _I), list_of(_S), _split),
        price=SPLITTING,
    ),
    function(
        "substring",
        method("string_substring_int", (_S, _I), _S, _substring),
        method("string_substring_int_int", (_S, _I, _I), _S, _substring),
        price=TEXT_PASS,
    ),
    function("trim", method("string_trim", (_S,), _S, lambda text: text.strip(_SPACE)), price=TEXT_PASS),
    function(
        "upperAscii", method("string_upper_ascii", (_S,), _S, lambda text: text.translate(_UPPER)), price=TEXT_PASS
    ),
    function("format", method("string_format", (_S, list_of(types.DYN)), _S, format_text, price=FORMATTING)),
    function("strings.quote", overload("strings_quote", (_S,), _S, _quote, price=QUOTING)),
    function(
        "join",
        method("list_join", (list_of(_S),), _S, _join),
        method("list_join_string", (list_of(_S), _S), _S, _join),
        price=JOINING,
    ),
)
