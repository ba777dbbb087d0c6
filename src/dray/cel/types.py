"""Static types of CEL, used by the checker and in error messages."""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache
from weakref import WeakValueDictionary

from dray.cel.errors import CelIssue, Problems

MAX_TYPE_SIZE = 1000  # maximally nested lists and maps have a size of 500


class Kind(Enum):
    """Category of a type; types of the same kind can differ in name and parameters."""

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
    """A type. Types with equal kind, name and parameters are equal, and normally the same object.

    Types can be nested as deep as expressions, and `{a: a}` doubles the size of the type of `a`. Therefore
    frequently used values are computed once: the hash, `size` (the number of types it contains), and `open` (the
    names of the type parameters it contains).
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
        """Return the short form that type errors use."""
        return _shown(self)

    def declared(self) -> str:
        """Return the form with full type names.

        Names of type parameters are in angle brackets.
        """
        name = f"<{self.name}>" if self.kind is Kind.PARAM else self.name
        return f"{name}({', '.join(param.declared() for param in self.params)})" if self.params else name

    def equivalent(self, other: Type) -> bool:
        """Return whether the types are equal if the names of type parameters are ignored."""
        if self is other:
            return True
        if self.kind is not other.kind or len(self.params) != len(other.params):
            return False
        if self.kind is not Kind.PARAM and self.name != other.name:
            return False
        return all(map(Type.equivalent, self.params, other.params))

    @property
    def is_dyn(self) -> bool:
        """Whether the checker accepts every type in place of this one (dyn or any)."""
        return self.kind is Kind.DYN or self.kind is Kind.ANY

    @property
    def certain(self) -> bool:
        """Whether values surely have this type at run time: it contains no dyn, any or type parameter."""
        return not self.is_dyn and self.kind is not Kind.PARAM and all(param.certain for param in self.params)

    @property
    def is_optional(self) -> bool:
        """Whether this type is `optional_type(T)`."""
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
SORTABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)  # types of sort keys

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
    """Return the type `list(T)`."""
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type `map(K, V)`."""
    return Type(Kind.MAP, "map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type `optional_type(T)`."""
    return Type(Kind.OPAQUE, "optional_type", (value,))


def type_of(value: Type) -> Type:
    """Return the type `type(T)`, the type of a type."""
    return Type(Kind.TYPE, "type", (value,))


def param(name: str) -> Type:
    """Return a type parameter with this name."""
    return Type(Kind.PARAM, name)
