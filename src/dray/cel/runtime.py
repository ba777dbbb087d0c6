"""What generated code calls: short functions that either have the right answer or raise.

Raising anything hands the expression over to the interpreter, so that nothing here needs to
explain itself.
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
    """Generated code has no answer."""


def fail() -> Value:
    """Stands where a constant expression is known to be an error."""
    raise Irregular


def boolean(value: Value) -> bool:
    """An operand of a logical operator that was not known to be a bool."""
    if value is True or value is False:
        return value
    raise Irregular


def field(value: Value, key: Value) -> Value:
    """A field, key or index of a value of any type."""
    if value.__class__ is Optional:
        return probe(value, key)
    return qualify(value, key, presence=False)[1]


def probe(value: Value, key: Value) -> Value:
    """The optional field, key or index."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    found, result = qualify(value, key, presence=True)
    return Optional(result) if found else NONE


def has(value: Value, key: str) -> bool:
    """Whether there is such a field."""
    if isinstance(value, Optional):
        return value.present and has(value.value, key)
    return qualify(value, key, presence=True)[0]


def or_value(value: Value, otherwise: Value) -> Value:
    """The value of an optional, or another."""
    if value.__class__ is not Optional:
        raise Irregular
    return value.value if value.present else otherwise


def or_optional(value: Value, otherwise: Value) -> Value:
    """The first of two optionals that has a value."""
    if value.__class__ is not Optional:
        raise Irregular
    return value if value.present else otherwise


def each(value: Value, interrupt: Interrupt | None) -> Iterable[Value]:
    """What a loop with one variable runs over."""
    if isinstance(value, list):
        return value if interrupt is None else paced(value, interrupt)
    if value.__class__ in MAPS:
        mapping: Mapping[Value, Value] = value
        return keys(mapping) if interrupt is None else paced(keys(mapping), interrupt)
    raise Irregular


def each_name(value: Mapping[str, Value], interrupt: Interrupt | None) -> Iterable[Value]:
    """What a loop with one variable runs over, if that is a map by names."""
    return value if interrupt is None else paced(value, interrupt)


def each_pair(value: Value, interrupt: Interrupt | None) -> Iterable[tuple[Value, Value]]:
    """What a loop with two variables runs over."""
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
    """The same values, with the question now and then whether to go on."""
    for count, value in enumerate(values, 1):
        yield value
        if count % _CHECK_FREQUENCY == 0 and interrupt():
            raise Interrupted
