"""Functions that generated code calls. They either return the correct value or raise an exception.

After any exception the interpreter evaluates the expression again, so these functions need no error messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from dray.cel.errors import Interrupted
from dray.cel.limits import Interrupt
from dray.cel.steps import qualify
from dray.cel.values import MAPS, NONE, Optional, Value, keys, map_key

_CHECK_FREQUENCY = 100

T = TypeVar("T")


class Irregular(Exception):
    """Generated code cannot compute the value; the interpreter must."""


def fail() -> Value:
    """Raise Irregular; generated for a constant expression that is known to be an error."""
    raise Irregular


def boolean(value: Value) -> bool:
    """Return the operand of a logical operator if it is a bool. Raises Irregular otherwise."""
    if value is True or value is False:
        return value
    raise Irregular


def field(value: Value, key: Value) -> Value:
    """Return the field, key or index of a value of any type. For an optional, returns an optional.

    Raises NoSuchKey if it does not exist, EvaluationError if an index is out of bounds.
    """
    if value.__class__ is Optional:
        return probe(value, key)
    return qualify(value, key, presence=False)[1]


def probe(value: Value, key: Value) -> Value:
    """Return the field, key or index as an optional, which is empty if it does not exist.

    An empty optional gives an empty optional.
    """
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    found, result = qualify(value, key, presence=True)
    return Optional(result) if found else NONE


def has(value: Value, key: str) -> bool:
    """Return whether a value has a field.

    An optional has the fields of its value, and none if it is empty.
    """
    if isinstance(value, Optional):
        return value.present and has(value.value, key)
    return qualify(value, key, presence=True)[0]


def or_value(value: Value, otherwise: Value) -> Value:
    """Return the value of an optional, or `otherwise` if it is empty. Raises Irregular if it is not an optional."""
    if value.__class__ is not Optional:
        raise Irregular
    return value.value if value.present else otherwise


def or_optional(value: Value, otherwise: Value) -> Value:
    """Return the first of two optionals that is not empty. Raises Irregular if the first is not an optional."""
    if value.__class__ is not Optional:
        raise Irregular
    return value if value.present else otherwise


def each(value: Value, interrupt: Interrupt | None) -> Iterable[Value]:
    """Return the values of a loop with one variable: list elements or map keys. Raises Irregular for other types.

    `interrupt` is called every 100 values; Interrupted is raised if it returns True. None is never called.
    """
    if isinstance(value, list):
        return value if interrupt is None else paced(value, interrupt)
    if value.__class__ in MAPS:
        mapping: Mapping[Value, Value] = value
        return keys(mapping) if interrupt is None else paced(keys(mapping), interrupt)
    raise Irregular


def each_name(value: Mapping[str, Value], interrupt: Interrupt | None) -> Iterable[Value]:
    """Return the keys of a map with string keys, for a loop with one variable.

    `interrupt` is called every 100 keys; Interrupted is raised if it returns True. None is never called.
    """
    return value if interrupt is None else paced(value, interrupt)


def each_pair(value: Value, interrupt: Interrupt | None) -> Iterable[tuple[Value, Value]]:
    """Return index and element, or key and value, of each round of a loop. Raises Irregular for other types.

    `interrupt` is called every 100 pairs; Interrupted is raised if it returns True. None is never called.
    """
    pairs: Iterable[tuple[Value, Value]]
    if isinstance(value, list):
        pairs = enumerate(value)
    elif value.__class__ in MAPS:
        mapping: Mapping[Value, Value] = value
        pairs = ((key, mapping[map_key(key)]) for key in keys(mapping))
    else:
        raise Irregular
    return pairs if interrupt is None else paced(pairs, interrupt)


def paced(values: Iterable[T], interrupt: Interrupt) -> Iterator[T]:
    """Yield the same values. Raises Interrupted if `interrupt`, called every 100 values, returns True."""
    for count, value in enumerate(values, 1):
        yield value
        if count % _CHECK_FREQUENCY == 0 and interrupt():
            raise Interrupted
