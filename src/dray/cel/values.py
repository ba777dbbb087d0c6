"""The values of CEL at run time, and what holds for all of them: type, equality, order, size, printing.

Where Python has the type, CEL uses it: bool, int, float, str, bytes, None, list, dict. Lists and
dicts are never changed once another expression can see them. Python takes `True` for `1`; so
equality goes through `equal`, and a bool as map key hides behind `BoolKey`.
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

Value = object  # what a CEL expression may yield; Python cannot say it more narrowly


class Uint(int):
    """An unsigned integer; equal to an int of the same value."""

    __slots__ = ()


class BoolKey(Enum):
    """A bool as key of a dict, where Python would take it for a number."""

    FALSE = False
    TRUE = True


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time, in nanoseconds since 1970, with the offset from UTC in seconds that it prints in."""

    nanos: int
    zone: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int


class Optional:
    """A value that may be absent."""

    __slots__ = ("_value", "present")

    def __init__(self, value: Value = None, present: bool = True) -> None:
        self._value = value
        self.present = present

    @property
    def value(self) -> Value:
        """The value; raises EvaluationError where there is none."""
        if not self.present:
            raise EvaluationError("optional.none() dereference")
        return self._value


NONE = Optional(present=False)


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a URL that selectors can ask for."""

    scheme: str
    host: str
    path: str
    query: str
    text: str


@dataclass(frozen=True, slots=True)
class Format:
    """A named format that strings can be checked against; `regex_size` is what its cost is computed from."""

    name: str
    regex_size: int


Ip = (IPv4Address, IPv6Address)
Cidr = (IPv4Interface, IPv6Interface)


class DomainMap(dict[str, dict[str, Value]]):
    """Attributes or capacities by domain; an unknown domain has nothing in it."""

    __slots__ = ()

    def __missing__(self, key: str) -> dict[str, Value]:
        return _NOTHING


_NOTHING: dict[str, Value] = {}


class LazyMap(dict[str, Value]):
    """A map whose entries are computed when they are first asked for; whatever has no entry is an EvaluationError."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[str], Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: str) -> Value:
        value = self[key] = self._compute(key)
        return value


class Made(dict[str, Value]):
    """An object that an expression has made: its fields, and the type that it was made as."""

    __slots__ = ("type",)

    def __init__(self, type_: Type) -> None:
        super().__init__()
        self.type = type_


@dataclass(frozen=True, slots=True)
class AuthorizerCheck:
    """May somebody do this? A verb on a resource, or, if `path` is set, on a URL that is no resource.

    `account` is namespace and name of the service account that is asked about; without it, it is the asker.
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
    """The answer to a question."""

    allowed: bool
    reason: str = ""


Ask = Callable[[AuthorizerCheck], CelDecision]


@dataclass(frozen=True, slots=True)
class CelAuthorizer:
    """What questions begin with; each step of one gives a value of the next class with more of it known."""

    ask: Ask
    question: AuthorizerCheck = AuthorizerCheck()


class PathCheck(CelAuthorizer):
    """A question about a URL that lacks the verb only."""


class GroupCheck(CelAuthorizer):
    """A question about an API group that lacks a resource."""


class ResourceCheck(CelAuthorizer):
    """A question about a resource that lacks the verb only."""


class MergedList(list[Value]):
    """A list whose elements are told apart: by themselves, as those of a set, or by what they have under `keys`.

    The order of its elements does not matter when it is compared, and another list is merged into it when it is added.
    """

    __slots__ = ("keys",)

    def __init__(self, elements: Iterable[Value], keys: tuple[str, ...] = ()) -> None:
        super().__init__(elements)
        self.keys = keys

    def by_identity(self, elements: Iterable[Value]) -> dict[Hashable, Value]:
        return {self._identity(element): element for element in elements}

    def merged(self, other: list[Value]) -> MergedList:
        """This list with the elements of another: in place of those that they are, or at the end."""
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
# These refuse to be compared with anything else, where CEL's own types are just unequal to it.
RIGID = frozenset({Quantity, Semver, Url, Format, IPv4Address, IPv6Address, IPv4Interface, IPv6Interface})


def type_of(value: Value) -> Type:
    """The runtime type; elements of lists and maps are not looked at."""
    return value.type if isinstance(value, Made) else _TYPES[value.__class__]


def type_name(value: Value) -> str:
    """The runtime type's name."""
    return type_of(value).name


def equal(account: EffortAccount, left: Value, right: Value) -> bool:
    """CEL's equality. Raises NoSuchOverload where the left side is of a type that compares with its own kind only."""
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
    """Within lists and maps only a plain no makes a difference; a refusal to compare does not."""
    try:
        return equal(account, left, right)
    except NoSuchOverload:
        return True


def _equal_lists(account: EffortAccount, left: list[Value], right: list[Value]) -> bool:
    account.spend_elements(len(left))
    return len(left) == len(right) and all(map(partial(_equal_parts, account), left, right))


def _equal_merged(account: EffortAccount, left: MergedList, right: list[Value]) -> bool:
    """Whether each element of one is in the other, and says the same there."""
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
    """-1, 0 or 1; raises NoSuchOverload where the types have no common order."""
    if not ordered(left, right):
        raise NoSuchOverload
    if left != left or right != right:
        raise EvaluationError("NaN values cannot be ordered")
    if left == right:
        return 0
    return -1 if left < right else 1  # type: ignore[operator]  # both are of an ordered type


def ordered(left: Value, right: Value) -> bool:
    """Whether the two values are of types that have a common order."""
    kind, other = left.__class__, right.__class__
    return kind in ORDERED and (kind is other or (kind in NUMBERS and other in NUMBERS))


def size_for_cost(value: Value) -> int:
    """The size that costs are computed from; what has no size counts as one."""
    kind = value.__class__
    if kind in SIZED:
        return len(value)  # type: ignore[arg-type]  # the class was just checked
    if isinstance(value, Cidr):  # before addresses, which Python takes interfaces for too
        return -(-value.network.prefixlen // 8)
    if isinstance(value, Ip):
        return value.max_prefixlen // 8
    return 1


def valid_text(text: str) -> str:
    """The text as UTF-8 can hold it: Python also has lone halves of surrogate pairs, JSON can smuggle them in."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def map_key(value: Value) -> Value:
    """How a value stands as key in a dict."""
    return BoolKey(value) if value.__class__ is bool else value


def keys(mapping: Mapping[Value, Value]) -> Iterator[Value]:
    """The keys of a map as values."""
    return (key.value if isinstance(key, BoolKey) else key for key in mapping)


def show(value: Value) -> str:
    """A value as it stands in messages."""
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
    """The shortest text that reads back as the same number; with an exponent below 1e-4 and from 1e6 on."""
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
    """The significant digits and the power of ten of the first one."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0", 0
    power = int(exponent or 0) + len(digits) - len(fraction) - 1
    return digits.rstrip("0"), power


def format_seconds(duration: Duration) -> str:
    """A duration's seconds, as few digits as keep the value."""
    text = repr(duration.nanos / NANOS)
    if "e" in text:
        text = f"{duration.nanos / NANOS:.9f}".rstrip("0")
    return text.removesuffix(".0").removesuffix(".")
