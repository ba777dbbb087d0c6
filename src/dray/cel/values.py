"""Run-time values of CEL: their types, equality, order, size and text form.

CEL bool, int, double, string, bytes, null, list and map are the corresponding Python types. Lists and dicts are
never changed once other expressions can see them. In Python `True == 1`, so equality uses `equal`, and a bool as
a map key is represented by `BoolKey`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface

from dray.api.quantity import Quantity
from dray.api.semver import Semver
from dray.cel import types
from dray.cel.errors import EvaluationError, NoSuchOverload
from dray.cel.limits import EffortAccount
from dray.cel.types import Type

INT_MAX = 2**63 - 1
INT_MIN = -(2**63)
UINT_MAX = 2**64 - 1
NANOS = 1_000_000_000

Value = object  # any value of a CEL expression; Python types cannot express it more precisely


class Uint(int):
    """An unsigned integer; equal to an int with the same value."""

    __slots__ = ()


class BoolKey(Enum):
    """A bool as a dict key, distinct from the numbers 0 and 1."""

    FALSE = False
    TRUE = True


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time in nanoseconds since 1970; `zone` is the offset from UTC in seconds, used only for printing."""

    nanos: int
    zone: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A duration in nanoseconds."""

    nanos: int


class Optional:
    """A CEL optional: a value that may be absent."""

    __slots__ = ("_value", "present")

    def __init__(self, value: Value = None, present: bool = True) -> None:
        self._value = value
        self.present = present

    @property
    def value(self) -> Value:
        """The value. Raises EvaluationError if the optional is empty."""
        if not self.present:
            raise EvaluationError("optional.none() dereference")
        return self._value


NONE = Optional(present=False)


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL that expressions can read."""

    scheme: str
    host: str
    path: str
    query: str
    text: str


@dataclass(frozen=True, slots=True)
class Format:
    """A named string format; `regex_size` determines the cost of a check."""

    name: str
    regex_size: int


Ip = (IPv4Address, IPv6Address)
Cidr = (IPv4Interface, IPv6Interface)


class DomainMap(dict[str, dict[str, Value]]):
    """Attributes or capacities by domain; an unknown domain is an empty map."""

    __slots__ = ()

    def __missing__(self, key: str) -> dict[str, Value]:
        return _NOTHING


_NOTHING: dict[str, Value] = {}


class LazyMap(dict[str, Value]):
    """A map that computes each entry on first access; `compute` raises EvaluationError for unknown keys."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[str], Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: str) -> Value:
        value = self[key] = self._compute(key)
        return value


class Made(dict[str, Value]):
    """An object constructed by an expression: its fields and its type."""

    __slots__ = ("type",)

    def __init__(self, type_: Type) -> None:
        super().__init__()
        self.type = type_


@dataclass(frozen=True, slots=True)
class AuthorizerCheck:
    """A question to the authorizer: a verb on a resource, or on the non-resource URL `path` if that is set.

    `account` is the namespace and name of the service account to check; without it, the user of the request is
    checked.
    """

    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    account: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CelDecision:
    """Decision of the authorizer."""

    allowed: bool
    reason: str = ""


AskAuthorizer = Callable[[AuthorizerCheck], CelDecision]


@dataclass(frozen=True, slots=True)
class CelAuthorizer:
    """The value of `authorizer`. Each method call returns a value of a subclass whose question has more fields set."""

    ask: AskAuthorizer
    question: AuthorizerCheck = AuthorizerCheck()


class PathCheck(CelAuthorizer):
    """Check of a non-resource URL; only the verb is missing."""


class GroupCheck(CelAuthorizer):
    """Check in an API group; the resource is missing."""


class ResourceCheck(CelAuthorizer):
    """Check of a resource; only the verb is missing."""


class MergedList(list[Value]):
    """A list of the type set or map, whose elements are identified by their value, or by their values of `keys`.

    Comparisons ignore the order of the elements. Adding another list merges its elements into this one.
    """

    __slots__ = ("keys",)

    def __init__(self, elements: Iterable[Value], keys: tuple[str, ...] = ()) -> None:
        super().__init__(elements)
        self.keys = keys

    def by_identity(self, elements: Iterable[Value]) -> dict[Hashable, Value]:
        """Return elements by their identity in this list: their value, or their values of `keys`.

        Of equal elements, the last is kept.
        """
        return {self._identity(element): element for element in elements}

    def merged(self, other: list[Value]) -> MergedList:
        """Return this list merged with another: elements with the same identity are replaced, new ones are appended.

        Elements keep their place when they are replaced.
        """
        return MergedList((self.by_identity(self) | self.by_identity(other)).values(), self.keys)

    def _identity(self, element: Value) -> Hashable:
        if self.keys and isinstance(element, dict):
            return tuple(_hashable(element.get(key)) for key in self.keys)
        return _hashable(element)


def _hashable(value: Value) -> Hashable:
    if isinstance(value, dict):
        return frozenset((key, _hashable(part)) for key, part in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, bool):
        return BoolKey(value)
    return value if isinstance(value, Hashable) else repr(value)


_TYPES: dict[type, Type] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    list: types.list_of(types.DYN),
    MergedList: types.list_of(types.DYN),
    dict: types.map_of(types.DYN, types.DYN),
    DomainMap: types.map_of(types.DYN, types.DYN),
    LazyMap: types.map_of(types.DYN, types.DYN),
    Timestamp: types.TIMESTAMP,
    Duration: types.DURATION,
    Optional: types.optional_of(types.DYN),
    Type: types.TYPE,
    Quantity: types.QUANTITY,
    Semver: types.SEMVER,
    Url: types.URL,
    Format: types.FORMAT,
    IPv4Address: types.IP,
    IPv6Address: types.IP,
    IPv4Interface: types.CIDR,
    IPv6Interface: types.CIDR,
    CelAuthorizer: types.AUTHORIZER,
    PathCheck: types.PATH_CHECK,
    GroupCheck: types.GROUP_CHECK,
    ResourceCheck: types.RESOURCE_CHECK,
    CelDecision: types.DECISION,
}

NUMBERS = frozenset({int, Uint, float})
_PLAIN = frozenset({str, int, bool, float, Uint, bytes, type(None), Quantity, Semver, Timestamp, Duration})
MAPS = frozenset({dict, DomainMap, LazyMap, Made})
ORDERED = frozenset({bool, int, Uint, float, str, bytes, Timestamp, Duration})
SIZED = frozenset({str, bytes, list, MergedList, dict, DomainMap, LazyMap})
# Comparing these with a value of another type is an error; CEL's own types are just unequal.
RIGID = frozenset({Quantity, Semver, Url, Format, IPv4Address, IPv6Address, IPv4Interface, IPv6Interface})


def type_of(value: Value) -> Type:
    """Return the run-time type of a value; the elements of lists and maps are not examined."""
    return value.type if isinstance(value, Made) else _TYPES[value.__class__]


def type_name(value: Value) -> str:
    """Return the name of a value's run-time type."""
    return type_of(value).name


def equal(account: EffortAccount, left: Value, right: Value) -> bool:
    """Return whether two values are equal in CEL. Raises NoSuchOverload if `left` allows only its own type.

    These are the types in RIGID; comparing them with null gives False. Two numbers are equal if their values are.
    """
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind in _PLAIN:
            return left == right
        if kind is list:
            return _equal_lists(account, left, right)  # type: ignore[arg-type]  # the class was just checked
        if isinstance(left, MergedList):
            return _equal_merged(account, left, right)  # type: ignore[arg-type]  # the class was just checked
        if isinstance(left, Made) and isinstance(right, Made):
            return left.type == right.type and _equal_maps(account, left, right)  # type: ignore[arg-type]  # keys are texts
        if kind in MAPS:
            return _equal_maps(account, left, right)  # type: ignore[arg-type]  # the class was just checked
        if kind is Optional:
            return _equal_optionals(account, left, right)  # type: ignore[arg-type]  # the class was just checked
        if isinstance(left, Type) and isinstance(right, Type):
            return left.name == right.name
        return left == right
    if kind in NUMBERS:
        return other in NUMBERS and left == right
    if isinstance(left, list) and isinstance(right, list):
        return (
            _equal_merged(account, left, right) if isinstance(left, MergedList) else _equal_lists(account, left, right)
        )
    if Made in (kind, other):
        return False
    if kind in MAPS and other in MAPS:
        return _equal_maps(account, left, right)  # type: ignore[arg-type]  # the class was just checked
    if kind in RIGID and right is not None:
        if _TYPES[kind] == _TYPES.get(other):
            return left == right
        raise NoSuchOverload
    return False


def _equal_parts(account: EffortAccount, left: Value, right: Value) -> bool:
    """Return whether two elements of lists or maps are equal; True if they cannot be compared."""
    try:
        return equal(account, left, right)
    except NoSuchOverload:
        return True


def _equal_lists(account: EffortAccount, left: list[Value], right: list[Value]) -> bool:
    account.spend_elements(len(left))
    return len(left) == len(right) and all(map(partial(_equal_parts, account), left, right))


def _equal_merged(account: EffortAccount, left: MergedList, right: list[Value]) -> bool:
    """Return whether both lists have the same elements by identity, with equal contents.

    Contents that cannot be compared count as equal.
    """
    account.spend_elements(len(left))
    if len(left) != len(right):
        return False
    known = left.by_identity(left)
    return all(
        key in known and _equal_parts(account, known[key], element) for key, element in left.by_identity(right).items()
    )


def _equal_maps(account: EffortAccount, left: dict[Value, Value], right: dict[Value, Value]) -> bool:
    account.spend_elements(len(left))
    if len(left) != len(right):
        return False
    default = isinstance(right, DomainMap)
    return all((default or key in right) and _equal_parts(account, value, right[key]) for key, value in left.items())


def _equal_optionals(account: EffortAccount, left: Optional, right: Optional) -> bool:
    return left.present == right.present and (not left.present or equal(account, left.value, right.value))


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1 for the order of two values.

    Raises NoSuchOverload if their types have no common order, and EvaluationError for NaN.
    """
    if not ordered(left, right):
        raise NoSuchOverload
    if left != left or right != right:
        raise EvaluationError("NaN values cannot be ordered")
    if left == right:
        return 0
    return -1 if left < right else 1  # type: ignore[operator]  # both are of an ordered type


def ordered(left: Value, right: Value) -> bool:
    """Return whether the types of two values have a common order."""
    kind, other = left.__class__, right.__class__
    return kind in ORDERED and (kind is other or (kind in NUMBERS and other in NUMBERS))


def size_for_cost(value: Value) -> int:
    """Return the size that costs are computed from; one for values without a size.

    The size of an IP address is its number of bytes, that of a CIDR its prefix length in bytes, rounded up.
    """
    kind = value.__class__
    if kind in SIZED:
        return len(value)  # type: ignore[arg-type]  # the class was just checked
    if isinstance(value, Cidr):  # before Ip, because Python's interface classes are subclasses of the address classes
        return -(-value.network.prefixlen // 8)
    if isinstance(value, Ip):
        return value.max_prefixlen // 8
    return 1


def valid_text(text: str) -> str:
    """Return the text with lone surrogates, which are not valid UTF-8, replaced by `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def map_key(value: Value) -> Value:
    """Return the dict key that represents a value: BoolKey for a bool, otherwise the value itself."""
    return BoolKey(value) if value.__class__ is bool else value


def keys(mapping: Mapping[Value, Value]) -> Iterator[Value]:
    """Return an iterator over the keys of a map as CEL values.

    Wrapped bool keys are unwrapped.
    """
    return (key.value if isinstance(key, BoolKey) else key for key in mapping)


def show(value: Value) -> str:
    """Return the text of a value for error messages."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return format_double(value)
        case None:
            return "null"
        case list():
            return f"[{', '.join(map(show, value))}]"
        case dict():
            return "{" + ", ".join(f"{show(key)}: {show(item)}" for key, item in value.items()) + "}"
        case BoolKey():
            return show(value.value)
        case Type():
            return value.declared()
        case Duration():
            return f"{format_seconds(value)}s"
    return str(value)


def format_double(value: float) -> str:
    """Return the shortest text that parses to the same number, with an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    digits, power = _shortest(value)
    sign = "-" if math.copysign(1, value) < 0 else ""
    if -4 <= power < 6:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        whole, fraction = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
        return f"{sign}{whole}.{fraction}" if fraction else sign + whole
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _shortest(value: float) -> tuple[str, int]:
    """Return the significant digits of a number, and the power of ten of the first digit.

    The sign is ignored. Zero gives ("0", 0).
    """
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0", 0
    power = int(exponent or 0) + len(digits) - len(fraction) - 1
    return digits.rstrip("0"), power


def format_seconds(duration: Duration) -> str:
    """Return a duration in seconds as text, with as few digits as possible.

    The unit is not included.
    """
    text = repr(duration.nanos / NANOS)
    if "e" in text:
        text = f"{duration.nanos / NANOS:.9f}".rstrip("0")
    return text.removesuffix(".0").removesuffix(".")
