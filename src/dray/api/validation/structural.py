"""Checks whether the schema of a custom resource is structural: one skeleton specifies the type of every field.

Schemas under `allOf`, `anyOf`, `oneOf` and `not` only constrain values: they specify no types, and refer only to
fields in the skeleton. `schemas` checks everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api.errors import FieldError, forbidden, invalid, required
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.wire import Tree

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_EMBEDDED = "x-kubernetes-embedded-resource"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING_MARK = "x-kubernetes-int-or-string"
_NAMES = frozenset({"name", "generateName"})
_PLACES = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
# Fields that alternatives must not have, and the value they must have instead.
_ONLY_IN_SKELETONS = {
    "type": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    _PRESERVE: "false",
    _EMBEDDED: "false",
    _INT_OR_STRING_MARK: "false",
    "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined",
    "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}
_GO_REGEXP = {  # RE2's error messages and the corresponding ones of Go
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}


def structural(tree: Tree, path: Path) -> list[FieldError]:
    """Return the errors because of which a schema is not structural, sorted by text."""
    return sorted([*_skeleton(tree, path, "root"), *_complete(tree, path)], key=str)


def _skeleton(node: Tree, path: Path, place: str) -> Errors:
    items, additional = node.get("items"), node.get("additionalProperties")
    if node.get("type") == "array" and not items:
        yield required(path / "items", "must be specified")
    elif isinstance(items, dict):
        yield from _skeleton(items, path / "items", "item")
    for name, part in (node.get("properties") or {}).items():
        yield from _skeleton(part, path / "properties" % name, "field")
    if additional is not None and place == "root":
        yield forbidden(path / "additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _skeleton(additional, path / "additionalProperties", "field")
    yield from _marks(node, path)
    yield from _values(node, path, *_allowances(node))
    yield from _type(node, path, place)
    yield from _meta(node, path, place == "root")


def _marks(node: Tree, path: Path) -> Errors:
    if node.get(_INT_OR_STRING_MARK):
        for mark in (_PRESERVE, _EMBEDDED):
            if node.get(mark):
                yield invalid(path / mark, True, f"must be false if {_INT_OR_STRING_MARK} is true")
    if node.get(_EMBEDDED):
        if node.get("additionalProperties") is not None:
            yield forbidden(path / "additionalProperties", f"must not be used if {_EMBEDDED} is set")
        if not node.get(_PRESERVE) and not node.get("properties"):
            yield required(path / "properties", f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}")


def _type(node: Tree, path: Path, place: str) -> Errors:
    type_ = node.get("type") or ""
    if node.get(_EMBEDDED) and type_ != "object":
        yield from wrong_type(type_, path, f"must be object if {_EMBEDDED} is true")
    elif not type_ and not node.get(_INT_OR_STRING_MARK) and not node.get(_PRESERVE):
        yield required(path / "type", f"must not be empty {_PLACES[place]}")
    if place == "root" and type_ and type_ != "object":
        yield invalid(path / "type", type_, "must be object at the root")


def wrong_type(type_: str, path: Path, text: str) -> Errors:
    """Yield an error because a field requires another type, or because the type is missing."""
    yield invalid(path / "type", type_, text) if type_ else required(path / "type", text)


def _meta(node: Tree, path: Path, root: bool) -> Errors:
    """Yield errors if a schema restricts apiVersion, kind or metadata more than permitted."""
    properties = node.get("properties") or {}
    if not root and not node.get(_EMBEDDED):
        return
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            here = path / "properties" % name / "type"
            yield invalid(here, properties[name].get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    here = path / "properties" % "metadata"
    if metadata.get("type") != "object":
        yield invalid(here / "type", metadata.get("type") or "", "must be object")
    if root:
        said = metadata.keys() - {"type", "default", "properties"}
        if said or (metadata.get("properties") or {}).keys() - _NAMES:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(here, text)


# Alternatives


def _allowances(node: Tree) -> tuple[bool, bool]:
    """Return whether `integer or string` occurs in anyOf, and whether it occurs in allOf."""
    all_of = node.get("allOf") or [{}]
    return node.get("anyOf") == _INT_OR_STRING, all_of[0].get("anyOf") == _INT_OR_STRING


def _values(node: Tree, path: Path, skip_any: bool = False, skip_all: bool = False) -> Errors:
    for name, index, option in _options(node):
        if name == "anyOf" and skip_any:
            continue
        here = path / name if index is None else path / name / index
        yield from _alternative(option, here, skip_any=skip_all and name == "allOf" and index == 0)
    if pattern := node.get("pattern"):
        yield from _pattern(pattern, path / "pattern")


def _options(node: Tree) -> Iterator[tuple[str, int | None, Tree]]:
    for name in ("anyOf", "allOf", "oneOf"):
        for index, option in enumerate(node.get(name) or ()):
            yield name, index, option
    if node.get("not"):
        yield "not", None, node["not"]


def _alternative(node: Tree, path: Path, skip_any: bool = False) -> Errors:
    yield from _values(node, path, skip_any)
    if isinstance(node.get("items"), dict):
        yield from _alternative(node["items"], path / "items")
    properties = node.get("properties") or {}
    for name, part in properties.items():
        yield from _alternative(part, path / "properties" % name)
    for name, instead in _ONLY_IN_SKELETONS.items():
        if node.get(name) not in (None, "", False, []) or (name == "additionalProperties" and name in node):
            yield forbidden(path / name, f"must be {instead} to be structural")
    if "metadata" in properties:
        yield forbidden(path / "properties" % "metadata", "must not be specified in a nested context")


def _pattern(text: str, path: Path) -> Errors:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as error:
        yield invalid(path, text, f"must be a valid regular expression, but isn't: {_in_go(error, text)}")


def _in_go(error: Any, pattern: str) -> str:
    said = error.args[0] if error.args else b""
    what, _, where = (said.decode(errors="replace") if isinstance(said, bytes) else str(said)).partition(": ")
    return f"error parsing regexp: {_GO_REGEXP.get(what, what)}: `{where or pattern}`"


# Completeness


def _complete(node: Tree, path: Path) -> Errors:
    """Yield errors if an alternative refers to a field that is not in the skeleton."""
    for name, index, option in _options(node):
        yield from _spoken_of(option, node, path, path / name if index is None else path / name / index)
    for name, part in (node.get("properties") or {}).items():
        yield from _complete(part, path / "properties" % name)
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            yield from _complete(node[name], path / name)


def _spoken_of(option: Tree, node: Tree | None, path: Path, here: Path) -> Errors:
    if node is None:
        yield required(path, f"because it is defined in {here}")
        return
    for name, index, inner in _options(option):
        yield from _spoken_of(inner, node, path, here / name if index is None else here / name / index)
    if isinstance(option.get("items"), dict):
        below = node.get("items") if isinstance(node.get("items"), dict) else None
        yield from _spoken_of(option["items"], below, path / "items", here / "items")
    known = node.get("properties") or {}
    for name, part in (option.get("properties") or {}).items():
        yield from _spoken_of(part, known.get(name), path / "properties" % name, here / "properties" % name)
