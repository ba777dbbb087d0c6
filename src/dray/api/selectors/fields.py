"""Field selectors: conditions on the fields that each resource offers for selection.

`metadata.name` and `metadata.namespace` are available for every resource. Parsing rejects a field that the
resource does not offer, so matching never fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import msgspec

from dray.api.custom.kinds import selected_text
from dray.api.errors import BadRequest
from dray.api.resources import Resource
from dray.api.types import meta

FieldReader = Callable[[Any], str]

_ESCAPED = re.compile(r"\\([\\,=])")
_TERM = re.compile(r"((?:[^\\,]|\\.)*)(?:,|$)")
_OPERATOR = re.compile(r"((?:[^\\=!]|\\.|!(?!=))*)(!=|==|=)(.*)", re.DOTALL)


def _metadata(field: Literal["name", "namespace"]) -> FieldReader:
    def read(object_: Any) -> str:
        metadata: meta.ObjectMeta = object_.metadata
        return getattr(metadata, field)  # type: ignore[no-any-return]  # both fields are text

    return read


_EVERYWHERE: Mapping[str, FieldReader] = {
    "metadata.name": _metadata("name"),
    "metadata.namespace": _metadata("namespace"),
}


class FieldSelector(msgspec.Struct, frozen=True):
    """Conditions that must all hold. A condition is a field, a value, and whether they must be equal (or different)."""

    conditions: tuple[tuple[str, str, bool], ...] = ()
    readers: tuple[FieldReader, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.conditions

    def matches(self, object_: Any) -> bool:
        """Return whether an object meets all conditions; True if there are none."""
        for read, (_, value, equal) in zip(self.readers, self.conditions, strict=True):
            if (read(object_) == value) is not equal:
                return False
        return True

    def exact(self, field: str) -> str | None:
        """Return the value that a field must equal, or None if there is no such condition.

        This lets callers avoid a full scan.
        """
        return next((value for name, value, equal in self.conditions if equal and name == field), None)


def parse_fields(resource: Resource, text: str) -> FieldSelector:
    """Parse a field selector: terms `field=value`, `field==value` or `field!=value`, separated by commas.

    Raises BadRequest for a syntax error or a field that the resource does not offer. An empty text has no conditions.
    """
    conditions: list[tuple[str, str, bool]] = []
    for term in _terms(text):
        match = _OPERATOR.fullmatch(term)
        if match is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        conditions.append((field, _unescape(value, text), operator != "!="))
    readers = {**_EVERYWHERE, **_offered(resource)}
    for field, _, _ in conditions:
        if field not in readers:
            raise BadRequest(_unsupported(resource, field))
    return FieldSelector(tuple(conditions), tuple(readers[field] for field, _, _ in conditions))


def _offered(resource: Resource) -> Mapping[str, FieldReader]:
    if resource.custom is None:
        return resource.selectable
    served = resource.custom.versions
    paths = {name: path for version in served for name, path in resource.custom.selectable(version).items()}
    return {name: partial(selected_text, path) for name, path in paths.items()}


def _terms(text: str) -> list[str]:
    """Return the terms of a selector between commas, without empty ones. Raises BadRequest for a syntax error."""
    terms = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{text[position:]}'")
        terms.append(match[1])
        position = match.end()
    return [term for term in terms if term]


def _unescape(value: str, text: str) -> str:
    """Return a value without escapes. Raises BadRequest, which shows `text`, if the value is invalid."""
    clean = _ESCAPED.sub(r"\1", value)
    if "\\" in _ESCAPED.sub("", value) or re.search(r"(?<!\\)=", _ESCAPED.sub("", value)):
        raise BadRequest(f"invalid selector: '{text}'; can't understand '{value}'")
    return clean


def _unsupported(resource: Resource, field: str) -> str:
    if resource.custom is not None or resource.selectable:
        return resource.not_selectable.format(field=field)
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
