"""Whether the expressions of a policy fit a kind of object that the policy is about.

A policy is evaluated without declared types, so that a misspelt field shows only when a request comes; with the types
of the schema it shows before. Fields have the types that evaluation finds: times, quantities and bytes are strings. What
may be several things, and objects of custom kinds that take members which nobody declared, can be anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from dray.api import schema
from dray.api.names import CEL_RESERVED
from dray.api.resources import BY_KIND, Resource
from dray.cel.admission import Declared, Fields, environment, exposed
from dray.cel.declarations import Environment
from dray.cel.expression import Expression
from dray.cel.types import BOOL, DYN, INT, STRING, Kind, Type, list_of, map_of

_PLAIN = {
    "bool": BOOL,
    "bytes": STRING,
    "i32": INT,
    "i64": INT,
    "microtime": STRING,
    "quantity": STRING,
    "str": STRING,
    "time": STRING,
}


class KindCheck:
    """Checks expressions about one kind in one version."""

    def __init__(
        self, resource: Resource, version: str, params: Type | None, variables: Iterable[tuple[str, str]]
    ) -> None:
        """`variables` are names and expressions in their order; those that do not fit can be anything."""
        self.kind = f"{resource.group}/{version}, Kind={resource.kind}"
        message = resource.message(version)
        self._messages = _messages() if resource.custom is None else {**_messages(), **_custom_messages(message)}
        self._object = _message(message) if message in self._messages else DYN
        self._params = params
        self._environment = self._declaring(None)
        declared: dict[str, Type] = {}
        for name, text in variables:
            declared[name] = exposed(Expression(text, self._environment).type)
            self._environment = self._declaring(tuple(declared.items()))

    def complaint(self, text: str) -> str:
        """What is wrong with an expression, with its place; empty if nothing is."""
        error = Expression(text, self._environment).error
        return error.report if error is not None else ""

    def _declaring(self, variables: Declared | None) -> Environment:
        return environment(self._object, self._params, True, variables, self._messages)


def type_of_kind(api_version: str, kind: str) -> Type:
    """The type of an object's tree."""
    group, _, version = api_version.rpartition("/")
    resource = BY_KIND.get((group, kind))
    return _message(resource.message(version)) if resource is not None and version in resource.versions else DYN


def _message(name: str) -> Type:
    return Type(Kind.STRUCT, name)


@cache
def _typed(text: str) -> Type:
    """The type that the schema spells like this."""
    if text.startswith("["):
        return list_of(_typed(text[1:]))
    if text.startswith("{"):
        return map_of(STRING, _typed(text[1:]))
    if text.startswith("ref:"):
        return _message(text[4:])
    return _PLAIN.get(text, DYN)


def _custom_messages(root: str) -> Fields:
    """The fields of a custom kind's own messages. They are not kept, since they go with its definition."""
    found: dict[str, dict[str, Type]] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in found or name in _messages() or not _is_closed(name):
            continue
        fields = schema.message(name).fields
        found[name] = {key: _custom_type(field.type) for key, field in fields.items()}
        waiting += [field.reference for field in fields.values() if field.reference]
    return found


def _custom_type(text: str) -> Type:
    if text.startswith("["):
        return list_of(_custom_type(text[1:]))
    if text.startswith("{"):
        return map_of(STRING, _custom_type(text[1:]))
    if text.startswith("ref:"):
        return _message(text[4:]) if _is_closed(text[4:]) else DYN
    return _PLAIN.get(text, DYN)


def _is_closed(name: str) -> bool:
    """Whether all members of a message are declared, under the names that expressions use."""
    message = schema.message(name)
    return not message.open and all(key.isidentifier() and key not in CEL_RESERVED for key in message.fields)


@cache
def _messages() -> Fields:
    """The fields of all messages of the schema."""
    return {
        name: {field: _typed(found.type) for field, found in message.fields.items()}
        for name, message in schema.table().items()
    }
