"""What the expressions of admission policies see, and what they may take.

An expression is about a write: `object` and `oldObject`, of which one may be null, `request`, the `namespaceObject`,
`params` if the policy has a kind of them, the policy's own `variables`, each of which sees those before it, and, where
permitted, the `authorizer`. Objects are of no declared type: whatever is wrong with a field shows when it is read. An
expression that changes an object makes a part of it (`Object{spec: Object.spec{...}}`) or operations on it
(`JSONPatch{op: ...}`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from dray.api.quoting import quote
from dray.cel import types
from dray.cel.declarations import Environment, collect
from dray.cel.environment import LIBRARIES, NAMED_TYPES
from dray.cel.errors import CostExceeded, EvaluationError, NoSuchKey
from dray.cel.expression import Expression, Result
from dray.cel.library import jsonpatch
from dray.cel.limits import Interrupt
from dray.cel.types import BOOL, DYN, INT, NULL, STRING, TIMESTAMP, Kind, Type, list_of, map_of, type_of
from dray.cel.values import LazyMap, Value

Use = Literal["condition", "variable", "validation", "message", "annotation", "mutation", "json patch"]
Read = Callable[[str], Value]  # the value of a variable by its name
Fields = Mapping[str, Mapping[str, Type]]  # of structs, by their names

BUDGET = 10_000_000  # of all expressions of a policy in one evaluation; each alone is limited as selectors are
CONDITIONS_BUDGET = BUDGET // 4

_CACHE_SIZE = 1024
_PLAIN = frozenset({Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.NULL, Kind.STRING})
_KEPT = _PLAIN | {Kind.TIMESTAMP, Kind.UINT, Kind.LIST, Kind.MAP}
_TEXTS = list_of(STRING)
OBJECT = Type(Kind.STRUCT, "Object")  # what a mutation lays over the object
PATCH = Type(Kind.STRUCT, "JSONPatch")  # one operation
_LABELS = map_of(STRING, STRING)


def _struct(name: str) -> Type:
    return Type(Kind.STRUCT, f"kubernetes.{name}")


_REQUEST = _struct("AdmissionRequest")
_NAMESPACE = _struct("Namespace")
_VARIABLES = _struct("variables")
_FIELDS: Fields = {
    "kubernetes.AdmissionRequest": {
        "kind": _struct("GroupVersionKind"),
        "resource": _struct("GroupVersionResource"),
        "subResource": STRING,
        "requestKind": _struct("GroupVersionKind"),
        "requestResource": _struct("GroupVersionResource"),
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _struct("UserInfo"),
        "dryRun": BOOL,
        "options": DYN,
    },
    "kubernetes.GroupVersionKind": {"group": STRING, "version": STRING, "kind": STRING},
    "kubernetes.GroupVersionResource": {"group": STRING, "version": STRING, "resource": STRING},
    "kubernetes.UserInfo": {"username": STRING, "uid": STRING, "groups": _TEXTS, "extra": map_of(STRING, _TEXTS)},
    "kubernetes.Namespace": {
        "metadata": _struct("NamespaceMetadata"),
        "spec": _struct("NamespaceSpec"),
        "status": _struct("NamespaceStatus"),
    },
    "kubernetes.NamespaceMetadata": {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": _LABELS,
        "annotations": _LABELS,
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": _TEXTS,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceStatus": {"conditions": list_of(_struct("NamespaceCondition")), "phase": STRING},
    "kubernetes.NamespaceCondition": {
        "status": STRING,
        "type": STRING,
        "lastTransitionTime": TIMESTAMP,
        "message": STRING,
        "reason": STRING,
    },
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """What an expression may be, by its use: of which types, and which of the variables it has."""

    returns: tuple[Type, ...] = ()
    authorizer: bool = True
    variables: bool = True
    makes: bool = False  # objects and patches


_RULES: Mapping[Use, _Rule] = {
    "condition": _Rule((BOOL,), variables=False),
    "variable": _Rule(),
    "validation": _Rule((BOOL,)),
    "message": _Rule((STRING,), authorizer=False),
    "annotation": _Rule((STRING, NULL)),
    "mutation": _Rule((OBJECT,), makes=True),
    "json patch": _Rule((list_of(PATCH),), makes=True),
}


@lru_cache(maxsize=1)
def _functions() -> Environment:
    """An environment with functions and types, and nothing to ask about."""
    return Environment(collect(LIBRARIES), {}, {named.name: type_of(named) for named in NAMED_TYPES})


Declared = tuple[tuple[str, Type], ...]


def environment(
    object_: Type,
    params: Type | None,
    authorizer: bool,
    declared: Declared | None,
    messages: Fields = MappingProxyType({}),
) -> Environment:
    """What expressions see: objects and parameters of these types, of whose fields `messages` knows."""
    variables = {"object": object_, "oldObject": object_, "request": _REQUEST, "namespaceObject": _NAMESPACE}
    if params is not None:
        variables["params"] = params
    if authorizer:
        variables |= {"authorizer": types.AUTHORIZER, "authorizer.requestResource": types.RESOURCE_CHECK}
    fields = {**_FIELDS, **messages}
    if declared is not None:
        variables["variables"] = _VARIABLES
        fields[_VARIABLES.name] = dict(declared)
    base = _functions()
    return Environment(base.functions, variables, base.types, fields)


@lru_cache(maxsize=_CACHE_SIZE)
def _environment(params: bool, authorizer: bool, declared: Declared | None, makes: bool) -> Environment:
    plain = environment(DYN, DYN if params else None, authorizer, declared)
    if not makes:
        return plain
    functions = {**plain.functions, **collect([jsonpatch.FUNCTIONS])}
    fields = {**plain.fields, PATCH.name: {"op": STRING, "path": STRING, "from": STRING, "value": DYN}}
    return replace(plain, functions=functions, fields=fields, made=frozenset({PATCH.name}), dynamic=OBJECT.name)


@lru_cache(maxsize=_CACHE_SIZE)
def _compiled(text: str, params: bool, use: Use, declared: Declared | None) -> Expression:
    rule = _RULES[use]
    return Expression(text, _environment(params, rule.authorizer, declared, rule.makes), rule.returns)


class Compiler:
    """Compiles the expressions of one policy; variables in their order, and before what uses them."""

    def __init__(self, *, params: bool, composed: bool) -> None:
        """`params` and `composed` tell whether the policy has a kind of parameters, and variables."""
        self._params = params
        self._composed = composed
        self.variables: dict[str, Expression] = {}

    def compile(self, use: Use, text: str, name: str = "") -> Expression:
        """The expression, with an `error` if it is not right; a variable is known by its `name` from then on."""
        expression = _compiled(text, self._params, use, self._declared if _RULES[use].variables else None)
        if use == "variable":
            self.variables[name] = expression
        return expression

    @property
    def _declared(self) -> Declared | None:
        if not self._composed:
            return None
        return tuple((name, exposed(expression.type)) for name, expression in self.variables.items())


def exposed(found: Type) -> Type:
    """The type that a variable has in other expressions: what is not plain is looked at when it is used."""
    if found.kind not in _KEPT:
        return DYN
    return Type(found.kind, found.name, tuple(map(exposed, found.params))) if found.params else found


class OutOfBudget(CostExceeded):
    """The expressions of a policy cost too much together."""

    def __str__(self) -> str:
        return "validation failed due to running out of cost budget, no further validation rules will be run"


class Evaluation:
    """The evaluation of one policy's expressions about one write; variables are evaluated when they are needed, once."""

    def __init__(self, read: Read, variables: Mapping[str, Expression], budget: int, interrupt: Interrupt) -> None:
        self._values = LazyMap(self._read)
        self._source = read
        self._variables = variables
        self._failed: dict[str, EvaluationError] = {}
        self._budget = budget
        self._interrupt = interrupt

    def evaluate(self, expression: Expression) -> Result:
        """Raises OutOfBudget, after which nothing can be evaluated any more, and Interrupted."""
        result = expression.evaluate(self._values, self._interrupt)
        self._budget -= result.cost
        if self._budget < 0:
            raise OutOfBudget
        return result

    def _read(self, name: str) -> Value:
        return LazyMap(self._variable) if name == "variables" else self._source(name)

    def _variable(self, name: str) -> Value:
        if name in self._failed:
            raise self._failed[name]
        expression = self._variables.get(name)
        if expression is None:
            raise NoSuchKey(name)
        if expression.error is not None:
            text = f"composited variable {quote(name)} fails to compile: {expression.error.detail}"
            raise EvaluationError(text)
        result = self.evaluate(expression)
        if result.error is not None:
            text = f"composited variable {quote(name)} fails to evaluate: {result.error}"
            self._failed[name] = EvaluationError(text)
            raise self._failed[name]
        return result.value
