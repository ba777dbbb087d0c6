"""Type-checks the expressions of an admission policy against the schema of a kind that the policy matches.

Policies are evaluated without declared types, so a misspelled field would fail only during a request. With the
schema's types, the mistake is reported when the policy is created. Fields have the types they have during
evaluation: times, quantities and bytes are strings. Fields that allow several types, and custom objects that
allow undeclared fields, have the type dyn.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from dray.api import schema
from dray.api.names import CEL_RESERVED
from dray.api.resources import BY_KIND, Resource
from dray.cel.admission import Declared, FieldTypes, environment, exposed
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
    """Type checker for expressions about one version of one kind."""

    def __init__(
        self, resource: Resource, version: str, params: Type | None, variables: Iterable[tuple[str, str]]
    ) -> None:
        """`variables` are the names and expressions of the policy's variables in order. A variable whose
        expression does not compile has the type dyn.
        """
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
        """Type-check an expression. Returns the problems with their positions, or an empty string.

        The string is empty if there are none.
        """
        error = Expression(text, self._environment).error
        return error.report if error is not None else ""

    def _declaring(self, variables: Declared | None) -> Environment:
        return environment(self._object, self._params, True, variables, self._messages)


def type_of_kind(api_version: str, kind: str) -> Type:
    """Return the CEL type of objects of a kind, or dyn if the kind or version is unknown.

    `api_version` is GROUP/VERSION, or only the version for the core group.
    """
    group, _, version = api_version.rpartition("/")
    resource = BY_KIND.get((group, kind))
    return _message(resource.message(version)) if resource is not None and version in resource.versions else DYN


def _message(name: str) -> Type:
    return Type(Kind.STRUCT, name)


@cache
def _typed(text: str) -> Type:
    """Return the CEL type of a type in schema notation, for example `[str` for a list of strings.

    `{` begins a map with string keys, `ref:` the name of a message. Other unknown types are dyn.
    """
    if text.startswith("["):
        return list_of(_typed(text[1:]))
    if text.startswith("{"):
        return map_of(STRING, _typed(text[1:]))
    if text.startswith("ref:"):
        return _message(text[4:])
    return _PLAIN.get(text, DYN)


def _custom_messages(root: str) -> FieldTypes:
    """Return the fields of a custom kind's messages. Not cached, because they disappear with the definition."""
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
    """Return whether a message declares all of its fields, with names that are valid in CEL."""
    message = schema.message(name)
    return not message.open and all(key.isidentifier() and key not in CEL_RESERVED for key in message.fields)


@cache
def _messages() -> FieldTypes:
    """Return the fields of all messages of the built-in schema."""
    return {
        name: {field: _typed(found.type) for field, found in message.fields.items()}
        for name, message in schema.table().items()
    }
