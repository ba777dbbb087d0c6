"""The static types of CEL, as the checker reasons about them and messages print them."""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache
from weakref import WeakValueDictionary

from dray.cel.errors import CelIssue, Problems

MAX_TYPE_SIZE = 1000  # lists and maps as deep as expressions may be nested have 500


class Kind(Enum):
    """What sort of type it is; types of one kind may still differ in name and parameters."""

    ANY = auto()
    BOOL = auto()
    BYTES = auto()
    DOUBLE = auto()
    DURATION = auto()
    DYN = auto()
    ERROR = auto()
    INT = auto()
    LIST = auto()
    MAP = auto()
    NULL = auto()
    OPAQUE = auto()
    PARAM = auto()
    STRING = auto()
    STRUCT = auto()
    TIMESTAMP = auto()
    TYPE = auto()
    UINT = auto()


class Type:
    """A type; equal where kind, name and parameters are, and then one object, unless two threads made it at once.

    Types nest as deep as expressions do, and `{a: a}` doubles the type of `a`. So what is asked of
    them often is computed once: the hash, `size`, the number of types in it, and `open`, the names
    of the type parameters in it.
    """

    __slots__ = ("__weakref__", "_hash", "kind", "name", "open", "params", "size")

    kind: Kind
    name: str
    params: tuple[Type, ...]
    open: frozenset[str]
    size: int
    _hash: int

    def __new__(cls, kind: Kind, name: str, params: tuple[Type, ...] = ()) -> Type:
        key = kind.value, name, params
        made = _TYPES.get(key)
        if made is None:
            made = super().__new__(cls)
            made.kind, made.name, made.params = kind, name, params
            made.size = 1 + sum(part.size for part in params)
            if made.size > MAX_TYPE_SIZE:
                raise Problems(CelIssue(f"expression type exceeds the limit of {MAX_TYPE_SIZE} nested types"))
            made.open = frozenset([name]) if kind is Kind.PARAM else _CLOSED.union(*(part.open for part in params))
            made._hash = hash(key)
            _TYPES[key] = made
        return made

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Type) or self._hash != other._hash:
            return False
        return self.kind is other.kind and self.name == other.name and self.params == other.params

    def __repr__(self) -> str:
        return f"<type {self}>"

    def __str__(self) -> str:
        """The form that type errors use."""
        return _shown(self)

    def declared(self) -> str:
        """The form that names a type in full."""
        name = f"<{self.name}>" if self.kind is Kind.PARAM else self.name
        return f"{name}({', '.join(param.declared() for param in self.params)})" if self.params else name

    def equivalent(self, other: Type) -> bool:
        """Equal but for the names of type parameters."""
        if self is other:
            return True
        if self.kind is not other.kind or len(self.params) != len(other.params):
            return False
        if self.kind is not Kind.PARAM and self.name != other.name:
            return False
        return all(map(Type.equivalent, self.params, other.params))

    @property
    def is_dyn(self) -> bool:
        """Whether the checker lets anything pass for this type."""
        return self.kind is Kind.DYN or self.kind is Kind.ANY

    @property
    def certain(self) -> bool:
        """Whether a value of this type needs no second look: nothing in it is left to evaluation."""
        return not self.is_dyn and self.kind is not Kind.PARAM and all(param.certain for param in self.params)

    @property
    def is_optional(self) -> bool:
        """Whether this is `optional_type(T)`."""
        return self.kind is Kind.OPAQUE and self.name == "optional_type"


_CLOSED: frozenset[str] = frozenset()
_TYPES: WeakValueDictionary[tuple[int, str, tuple[Type, ...]], Type] = WeakValueDictionary()

_SHORT_NAMES = {
    Kind.ANY: "any",
    Kind.DURATION: "duration",
    Kind.ERROR: "!error!",
    Kind.NULL: "null",
    Kind.TIMESTAMP: "timestamp",
}


@lru_cache(maxsize=256)  # an expression may have a thousand errors about one large type
def _shown(of: Type) -> str:
    name = _SHORT_NAMES.get(of.kind, of.name)
    return f"{name}({', '.join(map(str, of.params))})" if of.params else name


ANY = Type(Kind.ANY, "google.protobuf.Any")
BOOL = Type(Kind.BOOL, "bool")
BYTES = Type(Kind.BYTES, "bytes")
DOUBLE = Type(Kind.DOUBLE, "double")
DURATION = Type(Kind.DURATION, "google.protobuf.Duration")
DYN = Type(Kind.DYN, "dyn")
ERROR = Type(Kind.ERROR, "error")
INT = Type(Kind.INT, "int")
NULL = Type(Kind.NULL, "null_type")
STRING = Type(Kind.STRING, "string")
TIMESTAMP = Type(Kind.TIMESTAMP, "google.protobuf.Timestamp")
TYPE = Type(Kind.TYPE, "type")
UINT = Type(Kind.UINT, "uint")
SORTABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)  # that a list can be sorted by

AUTHORIZER = Type(Kind.STRUCT, "kubernetes.authorization.Authorizer")
CIDR = Type(Kind.OPAQUE, "net.CIDR")
DECISION = Type(Kind.STRUCT, "kubernetes.authorization.Decision")
DEVICE = Type(Kind.STRUCT, "kubernetes.DRADevice")
FORMAT = Type(Kind.STRUCT, "kubernetes.NamedFormat")
GROUP_CHECK = Type(Kind.STRUCT, "kubernetes.authorization.GroupCheck")
IP = Type(Kind.OPAQUE, "net.IP")
PATH_CHECK = Type(Kind.STRUCT, "kubernetes.authorization.PathCheck")
QUANTITY = Type(Kind.STRUCT, "kubernetes.Quantity")
RESOURCE_CHECK = Type(Kind.STRUCT, "kubernetes.authorization.ResourceCheck")
SEMVER = Type(Kind.STRUCT, "kubernetes.Semver")
URL = Type(Kind.STRUCT, "kubernetes.URL")


def list_of(element: Type) -> Type:
    """`list(T)`."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """`map(K, V)`."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """`optional_type(T)`."""
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of(value: Type) -> Type:
    """`type(T)`: the type of a type."""
    return Type(Kind.TYPE, "type", (value,))


def param(name: str) -> Type:
    """A type parameter."""
    return Type(Kind.PARAM, name)
