"""The function `format`: fills clauses like `%s` and `%.2f` from a list; checks argument types at compile time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dray.api.quoting import quote
from dray.cel.ast import AstNode, ListNode, MapNode, children
from dray.cel.declarations import metered
from dray.cel.errors import EvaluationError
from dray.cel.library.conversions import string_to_double, to_string
from dray.cel.limits import EffortAccount
from dray.cel.types import Kind
from dray.cel.values import Duration, Timestamp, Uint, Value, keys, map_key, type_name

_DEFAULT_PRECISION = 6
_MAX_PRECISION = 1000  # Kubernetes has no limit; this one bounds memory
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NOT_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})

_STRING_KINDS = frozenset(Kind) - {Kind.ANY, Kind.ERROR, Kind.OPAQUE, Kind.PARAM, Kind.STRUCT, Kind.DYN}
_INTEGERS = frozenset({Kind.INT, Kind.UINT})
_DOUBLES = frozenset({Kind.DOUBLE, Kind.STRING})

_COMPLAINTS = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}
_KINDS = {
    "s": _STRING_KINDS,
    "d": _INTEGERS,
    "f": _DOUBLES,
    "e": _DOUBLES,
    "b": _INTEGERS | {Kind.BOOL},
    "x": _INTEGERS | {Kind.STRING, Kind.BYTES},
    "o": _INTEGERS,
}


class FormatError(EvaluationError):
    """A template does not fit its arguments; `node` is the wrong argument, if known."""

    def __init__(self, message: str, node: AstNode | None = None) -> None:
        super().__init__(message)
        self.node = node


@dataclass(frozen=True, slots=True)
class _Clause:
    verb: str
    precision: int


@metered
def format_text(account: EffortAccount, template: str, args: list[Value]) -> Value:
    """Return the template with its clauses replaced by the arguments. Raises EvaluationError if they do not fit."""
    parts: list[str] = []
    index = 0
    for part in _parse(template, len(args)):
        if isinstance(part, str):
            parts.append(part)
        else:
            parts.append(_format_clause(account, part, args[index]))
            index += 1
        account.spend_text(len(parts[-1]))
    return "".join(parts)


def check_format(template: str, args: list[AstNode]) -> None:
    """Check the static types of the arguments against the template. Raises FormatError if they do not fit."""
    used = 0
    for part in _parse(template, len(args)):
        if isinstance(part, _Clause):
            _check_clause(part.verb, args[used])
            used += 1
    if len(args) > used:
        raise FormatError(f"too many arguments supplied to string.format (expected {used}, got {len(args)})")


def _parse(template: str, arguments: int) -> Iterator[str | _Clause]:
    position = index = 0
    while True:
        percent = template.find("%", position)
        if percent < 0:
            yield template[position:]
            return
        yield template[position:percent]
        if template[percent + 1 : percent + 2] == "%":
            yield "%"
            position = percent + 2
            continue
        if index >= arguments:
            raise FormatError(f"index {index} out of range")
        if percent + 1 >= len(template):
            raise FormatError("unexpected end of string")
        clause, position = _parse_clause(template, percent + 1)
        yield clause
        index += 1


def _parse_clause(template: str, position: int) -> tuple[_Clause, int]:
    precision = _DEFAULT_PRECISION
    if template[position] == ".":
        start = position = position + 1
        while position < len(template) and template[position] in "0123456789":
            position += 1
        precision = _parse_precision(template[start:position], ended=position >= len(template))
    verb = template[position]
    if verb not in _COMPLAINTS and verb != "X":
        raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
    return _Clause(verb, precision), position + 1


def _parse_precision(digits: str, ended: bool) -> int:
    reason = "could not parse formatting clause: error while parsing precision: "
    if ended:
        raise FormatError(reason + "could not find end of precision specifier")
    if not digits:
        detail = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
        raise FormatError(reason + detail)
    if len(digits) > 9 or int(digits) > _MAX_PRECISION:
        raise FormatError(f"{reason}precision {digits} exceeds maximum allowed precision {_MAX_PRECISION}")
    return int(digits)


def _check_clause(verb: str, node: AstNode) -> None:
    verb = verb.lower()
    kind = node.checked_type.kind
    if kind is not Kind.DYN and kind not in _KINDS[verb]:
        complaint = _COMPLAINTS[verb].format(node.checked_type.name)
        raise FormatError(f"error during formatting: {complaint}", node)
    if verb == "s" and isinstance(node, (ListNode, MapNode)):
        for part in children(node):
            _check_clause("s", part)


def _refusal(verb: str, value: Value) -> FormatError:
    return FormatError(f"error during formatting: {_COMPLAINTS[verb].format(type_name(value))}")


def _format_clause(account: EffortAccount, clause: _Clause, value: Value) -> str:
    match clause.verb:
        case "s":
            return _plain(account, value)
        case "d":
            return _integer("d", value, str)
        case "f":
            return _fixed(value, clause.precision)
        case "e":
            return _scientific(value)
        case "b":
            return ("1" if value else "0") if isinstance(value, bool) else _integer("b", value, lambda n: f"{n:b}")
        case "o":
            return _integer("o", value, lambda n: f"{n:o}")
    return _hexadecimal(value, upper=clause.verb == "X")


def _integer(verb: str, value: Value, show: Callable[[int], str]) -> str:
    if value.__class__ not in (int, Uint):
        raise _refusal(verb, value)
    return show(int(value))


def _hexadecimal(value: Value, upper: bool) -> str:
    if isinstance(value, str):
        value = value.encode()
    text = value.hex() if isinstance(value, bytes) else _integer("x", value, lambda n: f"{n:x}")
    return text.upper() if upper else text


def _double(verb: str, value: Value) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in _NOT_NUMBERS:
        return string_to_double(value)
    raise _refusal(verb, value)


def _special(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return None


def _fixed(value: Value, precision: int) -> str:
    number = _double("f", value)
    return _special(number) or f"{number:,.{precision}f}"


def _scientific(value: Value) -> str:
    number = _double("e", value)
    special = _special(number)
    if special:
        return special
    mantissa, _, exponent = f"{number:.6e}".partition("e")
    power = f"{'-' if exponent[0] == '-' else ''}{exponent[1:]:0>2}"
    return f"{mantissa}\u202f×\u202f10{power.translate(_SUPERSCRIPTS)}"


def _plain(account: EffortAccount, value: Value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_nested(account, item) for item in value)}]"
    if isinstance(value, dict):
        entries = sorted((_nested_key(account, key), _nested(account, value[map_key(key)])) for key in keys(value))
        return "{" + ", ".join(f"{key}:{item}" for key, item in entries) + "}"
    if value is None:
        return "null"
    if value.__class__.__name__ in ("Optional", "Quantity", "Semver", "Url", "Format") or "IPv" in type(value).__name__:
        raise _refusal("s", value)
    return to_string(value)


def _nested_key(account: EffortAccount, key: Value) -> str:
    if not isinstance(key, (str, bool, int)):
        raise FormatError(f"error during formatting: no formatting function for map key of type {type_name(key)}")
    return _nested(account, key)


def _nested(account: EffortAccount, value: Value) -> str:
    match value:
        case str():
            account.spend_text(len(value))
            return quote(value)
        case bytes():
            account.spend_text(len(value))
            return "b" + quote(to_string(value))
        case Timestamp():
            return f"timestamp({quote(to_string(value))})"
        case Duration():
            return f"duration({quote(to_string(value))})"
        case float():
            return quote(to_string(value)) if _special(value) else f"{value:.6f}"
        case list() | dict() | None | bool() | int():
            return _plain(account, value)
    if type_name(value) == "type":
        return to_string(value)
    raise FormatError(f"error during formatting: no formatting function for {type_name(value)}")
