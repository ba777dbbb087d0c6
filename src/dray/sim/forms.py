"""Typed reading of YAML files written by users, with errors that name the field and the expected value.

Left out: the meaning of the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from dray.files import YamlError, yaml_document

T = TypeVar("T")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "fields",
    "array": "a list",
    "null": "nothing",
}


class FormError(ValueError):
    """The file does not have the expected structure. The message says where and why."""


def read(content: str, type_: type[T]) -> T:
    """Parse a YAML file into a struct type.

    Raises FormError if the text is no YAML or does not fit the type; the message names the field.
    """
    try:
        tree: Any = yaml_document(content)
    except YamlError as error:
        raise FormError(str(error)) from error
    try:
        return msgspec.convert(tree, type_)
    except msgspec.ValidationError as error:
        raise FormError(_told(str(error), type_)) from error


def _told(error: str, type_: type[Any]) -> str:
    """Convert a validation error to a message with field path and expected values."""
    said, _, where = error.partition(" - at `$")
    path = where.rstrip("`").removeprefix(".")
    if found := re.fullmatch(r"Object contains unknown field `(.*)`", said):
        return f"{_field(path, found[1])}: expected one of {', '.join(_fields(type_, path))}"
    if found := re.fullmatch(r"Object missing required field `(.*)`", said):
        return f"{_field(path, found[1])}: it is missing"
    if found := re.fullmatch(r"Invalid enum value '?(.*?)'?", said):
        return f"{path}: expected one of {', '.join(_values(type_, path))}, got {found[1]}"
    if found := re.fullmatch(r"Expected `(.*)`, got `(.*)`", said):
        fields = ", ".join(_fields(type_, path))
        told = f"expected {_words(found[1])}{f' ({fields})' if fields else ''}, got {_words(found[2])}"
        return f"{path}: {told}" if path else told
    return f"{path}: {said}" if path else said


def _field(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _words(types: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in types.split(" | "))


def _fields(type_: type[Any], path: str) -> Iterator[str]:
    """Yield the field names that a struct at this path may have.

    Empty if there is no struct at this path.
    """
    return (
        one.encode_name
        for found in _types(type_, path)
        if isinstance(found, inspect.StructType)
        for one in found.fields
    )


def _values(type_: type[Any], path: str) -> Iterator[str]:
    """Yield the values of the enumeration at this path.

    Empty if there is no enumeration at this path.
    """
    found = (one for one in _types(type_, path) if isinstance(one, inspect.EnumType))
    return (str(value.value) for one in found for value in one.cls)


def _types(type_: type[Any], path: str) -> list[inspect.Type]:
    """Return the types allowed at a path such as `groups[0].template`.

    Alternatives of a union are returned one by one. Empty if there is nothing at this path.
    """
    found = [inspect.type_info(type_)]
    for name in re.findall(r"\w+|\[.*?\]", path):
        found = [inner for outer in found for one in _choices(outer) for inner in _inner(one, name)]
    return [one for outer in found for one in _choices(outer)]


def _choices(type_: inspect.Type) -> tuple[inspect.Type, ...]:
    return type_.types if isinstance(type_, inspect.UnionType) else (type_,)


def _inner(type_: inspect.Type, name: str) -> Iterator[inspect.Type]:
    match type_:
        case inspect.StructType():
            yield from (one.type for one in type_.fields if one.encode_name == name)
        case inspect.ListType():
            yield type_.item_type
        case inspect.DictType():
            yield type_.value_type
        case _:
            pass
