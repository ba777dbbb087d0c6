"""Converts a CustomResourceDefinition to a resource: its names, versions, schemas and subresources.

`custom_resource` creates the `Resource` that routing, discovery, storage and patches use. The schema of each
version is also registered in `dray.api.schema`, in the form of the built-in table, so that server-side apply
knows the field structure.
"""

from __future__ import annotations

import dataclasses
import itertools
import weakref
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec

from dray.api import schema
from dray.api.custom import jsonpath
from dray.api.custom.objects import CustomObject, members
from dray.api.custom.structure import ANYTHING, SchemaNode, compiled
from dray.api.errors import BadRequest
from dray.api.kind import Resource
from dray.api.types import apiextensions
from dray.api.wire import Tree

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_PLAIN = {"string": "str", "integer": "i64", "number": "num", "boolean": "bool"}
_numbers = itertools.count(1)


class CustomKindVersion:
    """One version of a custom kind."""

    def __init__(self, name: str, message: str, spec: apiextensions.CustomResourceDefinitionVersion) -> None:
        self.name = name
        self.message = message  # name of the schema in `dray.api.schema`
        self.spec = spec

    @cached_property
    def node(self) -> SchemaNode:
        """The schema, compiled on first use: compiling a large schema takes long, and not every caller needs it."""
        return compiled(schema_of(self.spec))

    @property
    def scale(self) -> apiextensions.CustomResourceSubresourceScale | None:
        return self.spec.subresources.scale if self.spec.subresources is not None else None

    @property
    def has_status(self) -> bool:
        return self.spec.subresources is not None and self.spec.subresources.status is not None


class CustomKind:
    """The versions, schemas and names that a definition gives its objects."""

    def __init__(self, definition: apiextensions.CustomResourceDefinition, before: CustomKind | None = None) -> None:
        """`before` is the previous state of the kind, whose schemas are reused if the spec is unchanged."""
        self.definition = definition
        names = definition.status.acceptedNames
        self.list_kind = names.listKind or f"{definition.spec.names.kind}List"
        self.versions: dict[str, CustomKindVersion] = {}
        self._seen: dict[str, Resource] = {}
        self._is_forgotten = False
        # Classes that clients pass to request objects of a resource.
        self.client_types: dict[Resource, type[CustomObject]] = {}
        number = next(_numbers)  # every instance registers its own schemas, because the old ones may still be in use
        if before is not None and before.describes(definition):
            self.versions = before.versions
            return
        for spec in definition.spec.versions:
            self.versions[spec.name] = CustomKindVersion(spec.name, self._message(spec.name, number), spec)

    def describes(self, definition: apiextensions.CustomResourceDefinition) -> bool:
        """Return whether a definition has the same spec as this kind, by comparing generations if possible."""
        mine, meta = self.definition.metadata, definition.metadata
        if mine.uid and mine.generation:
            return (mine.uid, mine.generation) == (meta.uid, meta.generation)
        return self.definition.spec == definition.spec

    def _message(self, version: str, number: int) -> str:
        spec = self.definition.spec
        return f"{'.'.join(reversed(spec.group.split('.')))}.{version}.{spec.names.kind}#{number}"

    @cached_property
    def stored(self) -> str:
        """The name of the storage version."""
        return next(spec.name for spec in self.definition.spec.versions if spec.storage)

    @property
    def served(self) -> tuple[str, ...]:
        """The names of the served versions."""
        return tuple(spec.name for spec in self.definition.spec.versions if spec.served)

    @property
    def converts(self) -> bool:
        """Whether the definition uses a conversion webhook; otherwise versions differ only in their name."""
        conversion = self.definition.spec.conversion
        return conversion is not None and conversion.strategy == "Webhook"

    @property
    def fills_on_read(self) -> bool:
        """Whether stored objects may lack defaults that were added to the definition later."""
        changed = self.definition.metadata.generation > 1
        return changed and any(version.node.has_defaults for version in self.versions.values())

    def message(self, version: str) -> str:
        """Return the name of a version's schema in `dray.api.schema`. Registers the schema if necessary."""
        found = self.versions[version]
        if not schema.is_known(found.message):
            spec = self.definition.spec
            kinds = ((spec.group, found.name, spec.names.kind),)
            schema.define(found.message, dict(_message(found.node, found.message, kinds, whole=True)))
            if self._is_forgotten:  # an older request still uses this kind; unregister the schema when it ends
                weakref.finalize(self, schema.forget, found.message)
        return found.message

    def forget(self, heir: CustomKind | None) -> None:
        """Unregister the schemas from `dray.api.schema` unless `heir`, the next state of the kind, uses them."""
        if heir is None or heir.versions is not self.versions:
            for version in self.versions.values():
                schema.forget(version.message)
            self._is_forgotten = True
        for type_ in self.client_types.values():
            del type_.RESOURCE  # type: ignore[attr-defined]  # frees the schema before the class is garbage-collected
        self.client_types.clear()
        self._seen.clear()

    def seen_in(self, resource: Resource, version: str) -> Resource:
        """Return the resource for clients of one version: a copy whose stored version is this version."""
        if version == resource.stored:
            return resource
        found = self._seen.get(version)
        if found is None:
            found = dataclasses.replace(resource, stored=version, subresources=self.subresources(version))
            self._seen[version] = found
        return found

    # Subresources and fields of a version

    def subresources(self, version: str) -> tuple[str, ...]:
        """Return the subresources of a version: status, scale, or both."""
        return tuple(_subresources(self.versions[version]))

    def scale(self, version: str, obj: CustomObject) -> tuple[int, int, str]:
        """Return the desired replicas, current replicas and label selector, for the scale subresource.

        A number without a value is 0, a selector without a value is empty. The version must have the subresource.
        """
        paths = self.versions[version].scale
        assert paths is not None
        tree = members(obj)
        wanted, there = _number(tree, paths.specReplicasPath), _number(tree, paths.statusReplicasPath)
        selector = jsonpath.first(paths.labelSelectorPath, tree) if paths.labelSelectorPath else ""
        return wanted, there, selector if isinstance(selector, str) else ""

    def unscaled(self, version: str, obj: CustomObject) -> str:
        """Return the path of the desired replicas if the object has no value there, otherwise an empty string."""
        paths = self.versions[version].scale
        assert paths is not None
        return "" if jsonpath.first(paths.specReplicasPath, members(obj)) is not None else paths.specReplicasPath

    def rescale(self, version: str, tree: Tree, replicas: int) -> None:
        """Write the desired number of replicas into a tree. Raises BadRequest if a parent is not an object."""
        paths = self.versions[version].scale
        assert paths is not None
        *parents, last = jsonpath.simple(paths.specReplicasPath)
        for name in parents:
            tree = tree.setdefault(name, {})
            if not isinstance(tree, dict):
                raise BadRequest(f"{paths.specReplicasPath} cannot be written: {name} is no object")
        tree[last] = replicas

    def selectable(self, version: str) -> dict[str, str]:
        """Return the selectable fields of a version with their JSONPaths.

        A field has its name in field selectors, such as `spec.size`.
        """
        return {
            field.jsonPath.removeprefix("."): field.jsonPath for field in self.versions[version].spec.selectableFields
        }


def selected_text(path: str, obj: CustomObject) -> str:
    """Return the value at a path as text for comparison with a field selector.

    Returns an empty string for a missing value, an object or a list.
    """
    value = jsonpath.first(path, members(obj))
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or isinstance(value, (dict, list)) else str(value)


def _number(tree: Tree, path: str) -> int:
    value = jsonpath.first(path, tree)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def schema_of(version: apiextensions.CustomResourceDefinitionVersion) -> Tree:
    """Return the schema of a version; one that preserves all fields if it has none."""
    found = version.schema.openAPIV3Schema if version.schema is not None else None
    return found or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def custom_resource(definition: apiextensions.CustomResourceDefinition, before: CustomKind | None = None) -> Resource:
    """Return the resource of a definition with accepted names; `before` is the previous state of the kind."""
    kind = CustomKind(definition, before)
    names, spec = definition.status.acceptedNames, definition.spec
    sub = {name for version in kind.versions.values() for name in _subresources(version)}
    return Resource(
        CustomObject,
        group=spec.group,
        kind=names.kind,
        plural=names.plural,
        versions=kind.served,
        stored=kind.stored,
        namespaced=spec.scope == "Namespaced",
        short_names=names.shortNames,
        categories=names.categories,
        subresources=tuple(sorted(sub)),
        verbs=VERBS,
        custom=kind,
        singular=names.singular,
    )


def _subresources(version: CustomKindVersion) -> Iterator[str]:
    if version.has_status:
        yield "status"
    if version.scale is not None:
        yield "scale"


# Conversion of the schema to the form of the built-in table


def _message(
    node: SchemaNode, name: str, kinds: tuple[tuple[str, str, str], ...] = (), whole: bool = False
) -> Iterator[tuple[str, schema.Message]]:
    fields: dict[str, schema.Field] = {}
    if whole or node.embedded:
        fields = {"apiVersion": schema.Field("str"), "kind": schema.Field("str")}
        fields["metadata"] = schema.Field(f"ref:{META}ObjectMeta", always=True)
    for key, part in node.properties.items():
        if key in fields:
            continue
        type_, inner = _type(part, f"{name}/{key}")
        yield from inner
        fields[key] = schema.Field(
            type_,
            default=None if part.default is msgspec.UNSET else part.default,
            list_type=_list_type(part),
            keys=part.map_keys,
            map_type="atomic" if part.atomic else "",
        )
    yield name, schema.Message(fields, kinds, "atomic" if node.atomic else "", node.preserves)


def _list_type(node: SchemaNode) -> Any:
    is_list = node.list_type == "set" or (node.list_type == "map" and node.items is not None and node.items.properties)
    return node.list_type if is_list else ""


def _type(node: SchemaNode, name: str) -> tuple[str, Iterator[tuple[str, schema.Message]]]:
    """Return the type of a schema node in table notation, and the messages that this type refers to.

    `name` is the name for the message if the node needs one.
    """
    if node.int_or_string:
        return "intstr", iter(())
    if node.type == "array":
        item, inner = _type(node.items or ANYTHING, f"{name}[]")
        return f"[{item}", inner
    if node.type == "object" and (node.properties or node.embedded):
        return f"ref:{name}", _message(node, name)
    if node.type == "object" and node.additional is not None and node.additional is not ANYTHING:
        item, inner = _type(node.additional, f"{name}{{}}")
        return f"{{{item}", inner
    return _PLAIN.get(node.type, schema.ANY), iter(())
