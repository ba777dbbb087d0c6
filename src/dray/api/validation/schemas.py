"""Schemas of custom resources: whether they are structural, and whether they mean anything.

A structural schema says of every member what it is, in one skeleton; what stands under `allOf`, `anyOf`, `oneOf` and
`not` only judges values. Defaults must fit their own schema. Rules in CEL are checked by whoever knows the language.
"""

from __future__ import annotations

from typing import Any

from dray.api.custom import pruning, values
from dray.api.custom.structure import Node, compiled
from dray.api.errors import duplicate, forbidden, invalid, required, unsupported
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors
from dray.api.validation.paths import Path
from dray.api.wire import Tree

DEEPEST = 64  # levels of a schema; Kubernetes has no limit, and no sane schema comes near this one
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_FORBIDDEN = ("$ref", "$schema", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
_SKELETON = ("type", "default", "nullable", "additionalProperties", "title", "description")
_MARKS = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string")
_LISTS = ("atomic", "map", "set")
_MAPS = ("atomic", "granular")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def schema(tree: Tree, path: Path, context: Context) -> Errors:
    """What is wrong with the schema of one version."""
    if depth(tree) > DEEPEST:
        yield invalid(path, "", f"must not be nested deeper than {DEEPEST} levels")
        return
    if tree.get("type") != "object":
        text = "must be object at the root" if tree.get("type") else "must not be empty at the root"
        yield invalid(path / "type", tree["type"], text) if tree.get("type") else required(path / "type", text)
    if tree.get("nullable"):
        yield forbidden(path / "nullable", "nullable cannot be true at the root")
    nodes = _Nodes(tree)
    found = [*_skeleton(tree, path, "", nodes, root=True)]
    yield from found
    if not found:
        yield from _rules(tree, path, nodes, context)


class _Nodes:
    """The nodes of a schema by their trees, all compiled at once when the first default or rule asks for one."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._nodes: dict[int, Node] = {}

    def of(self, tree: Tree) -> Node:
        if not self._nodes:
            pending = [compiled(self._tree)]
            while pending:
                node = pending.pop()
                self._nodes[id(node.schema)] = node
                pending += [*node.properties.values(), *filter(None, (node.additional, node.items))]
        return self._nodes.get(id(tree)) or compiled(tree)


def depth(tree: Any) -> int:
    """How deep a tree is nested; counted without recursion, up to the first level that is too deep."""
    level, found = [tree], 0
    while level and found <= 3 * DEEPEST:
        found += 1
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += [child for child in value.values() if isinstance(child, (dict, list))]
            elif isinstance(value, list):
                below += [child for child in value if isinstance(child, (dict, list))]
        level = below
    return found // 2


def _skeleton(node: Tree, path: Path, where: str, nodes: _Nodes, root: bool = False) -> Errors:
    for name in _FORBIDDEN:
        if node.get(name):
            yield forbidden(path / name, f"{name} is not supported")
    yield from _type(node, path, where, root)
    yield from _members(node, path, nodes, root)
    yield from _judgement(node, path)
    yield from _marks(node, path)
    if "default" in node:
        yield from _default(node, path, nodes)


def _type(node: Tree, path: Path, where: str, root: bool) -> Errors:
    type_ = node.get("type", "")
    loose = node.get("x-kubernetes-int-or-string") or node.get("x-kubernetes-preserve-unknown-fields")
    if type_ and type_ not in _TYPES:
        yield unsupported(path / "type", type_, _TYPES)
    elif not type_ and not loose and not root:
        yield required(path / "type", f"must not be empty for specified {where}")
    if type_ and node.get("x-kubernetes-int-or-string"):
        text = "must be empty if x-kubernetes-int-or-string is true"
        yield invalid(path / "type", type_, text)
    if type_ == "array" and not node.get("items"):
        yield required(path / "items", "must be specified")


def _members(node: Tree, path: Path, nodes: _Nodes, root: bool) -> Errors:
    items, additional, properties = node.get("items"), node.get("additionalProperties"), node.get("properties") or {}
    if isinstance(items, list):
        yield forbidden(path / "items", "items must be a schema object and not an array")
    elif isinstance(items, dict):
        yield from _skeleton(items, path / "items", "array items", nodes)
    if additional is False:
        yield forbidden(path / "additionalProperties", "additionalProperties cannot be set to false")
    elif additional is not None and properties:
        yield forbidden(path / "additionalProperties", "additionalProperties and properties are mutual exclusive")
    elif isinstance(additional, dict):
        yield from _skeleton(additional, path / "additionalProperties", "object fields", nodes)
    for name in sorted(properties):
        if root and name == "metadata":
            yield from _metadata(properties[name], path / "properties" % name)
        elif not (root and name in ("apiVersion", "kind")):
            yield from _skeleton(properties[name], path / "properties" % name, "object fields", nodes)


def _metadata(node: Tree, path: Path) -> Errors:
    if node.get("type", "object") != "object":
        yield invalid(path / "type", node["type"], "must be object")
    for name in sorted((node.get("properties") or {}).keys() - {"name", "generateName"}):
        text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(path / "properties" % name, text)


def _judgement(node: Tree, path: Path) -> Errors:
    """Parts that judge values: no skeleton below, and a pattern that can be read."""
    for name in ("allOf", "anyOf", "oneOf"):
        for index, option in enumerate(node.get(name) or ()):
            yield from _judging(option, path / name / index)
    if node.get("not"):
        yield from _judging(node["not"], path / "not")
    if node.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(path / "uniqueItems", text)
    if pattern := node.get("pattern"):
        yield from _pattern(pattern, path / "pattern")
    for name in ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"):
        if (node.get(name) or 0) < 0:
            yield invalid(path / name, node[name], "must be greater than or equal to 0")


def _judging(node: Tree, path: Path) -> Errors:
    for name in (*_SKELETON, *_MARKS):
        if node.get(name) and name not in ("type", "title", "description"):
            yield forbidden(path / name, "must be empty to be structural")
    if node.get("type") and not node.get("x-kubernetes-int-or-string") and node["type"] not in _TYPES:
        yield unsupported(path / "type", node["type"], _TYPES)
    for name, part in (node.get("properties") or {}).items():
        yield from _judging(part, path / "properties" % name)
    if isinstance(node.get("items"), dict):
        yield from _judging(node["items"], path / "items")
    yield from _judgement(node, path)


def _pattern(text: str, path: Path) -> Errors:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as error:
        yield invalid(path, text, f"must be a valid regular expression, but isn't: {error}")


def _marks(node: Tree, path: Path) -> Errors:
    if node.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(path / "x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if node.get("x-kubernetes-embedded-resource") and node.get("type") != "object":
        yield invalid(path / "type", node.get("type", ""), "must be object if x-kubernetes-embedded-resource is true")
    map_type, list_type = node.get("x-kubernetes-map-type"), node.get("x-kubernetes-list-type")
    if map_type is not None and map_type not in _MAPS:
        yield unsupported(path / "x-kubernetes-map-type", map_type, _MAPS)
    elif map_type is not None and node.get("type") != "object":
        yield invalid(path / "type", node.get("type", ""), "must be object if x-kubernetes-map-type is specified")
    if list_type is not None and list_type not in _LISTS:
        yield unsupported(path / "x-kubernetes-list-type", list_type, _LISTS)
    elif list_type is not None and node.get("type") != "array":
        yield invalid(path / "type", node.get("type", ""), "must be array if x-kubernetes-list-type is specified")
    keys = node.get("x-kubernetes-list-map-keys") or []
    if list_type == "map":
        yield from _keys(node, keys, path)
    elif keys:
        text = "must be 'map' if x-kubernetes-list-map-keys is non-empty"
        yield invalid(path / "x-kubernetes-list-type", list_type, text)


def _keys(node: Tree, keys: list[str], path: Path) -> Errors:
    if not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield required(path / "x-kubernetes-list-map-keys", text)
    items = node.get("items") if isinstance(node.get("items"), dict) else {}
    properties = (items or {}).get("properties") or {}
    seen: set[str] = set()
    for index, key in enumerate(keys):
        here = path / "x-kubernetes-list-map-keys" / index
        if key in seen:
            yield duplicate(here, key)
        seen.add(key)
        if key not in properties:
            yield invalid(here, key, "must refer to a property of the items")
        elif "default" not in properties[key] and key not in ((items or {}).get("required") or ()):
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(path / "items" / "properties" % key / "default", text)


def _default(node: Tree, path: Path, nodes: _Nodes) -> Errors:
    compiled_node, default = nodes.of(node), node["default"]
    for complaint in pruning.pruned_value(compiled_node, default):
        yield invalid(path / "default", default, f"must not have unknown fields: {complaint}")
    for fault in values.value_faults(compiled_node, default):
        inner = f".{fault.field}" if fault.field and not fault.field.startswith("[") else fault.field
        yield type(fault)(fault.reason, f"{path / 'default'}{inner}", fault.detail)


# Rules


def _rules(tree: Tree, path: Path, nodes: _Nodes, context: Context) -> Errors:
    yield from _plain_rules(tree, path)
    for fault in context.rule_faults(nodes.of(tree)):
        here = f"{path}{fault.path}.x-kubernetes-validations[{fault.number}].{fault.part}"
        error = invalid if fault.reason == "Invalid" else lambda at, _, text: forbidden(at, text)
        yield error(here, fault.shown, fault.text)


def _plain_rules(node: Tree, path: Path) -> Errors:
    for index, rule in enumerate(node.get("x-kubernetes-validations") or ()):
        here = path / "x-kubernetes-validations" / index
        if not (rule.get("rule") or "").strip():
            yield required(here / "rule", "rule is not specified")
        message = rule.get("message") or ""
        if message and not message.strip():
            yield invalid(here / "message", message, "message must be non-empty if specified")
        elif "\n" in message.strip() or "\r" in message.strip():
            yield invalid(here / "message", message, "message must not contain line breaks")
        if rule.get("reason") and rule["reason"] not in _REASONS:
            yield unsupported(here / "reason", rule["reason"], _REASONS)
    for name, part in (node.get("properties") or {}).items():
        yield from _plain_rules(part, path / "properties" % name)
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            yield from _plain_rules(node[name], path / name)
