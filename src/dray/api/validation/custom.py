"""Validation of custom objects: metadata as for all kinds, the schema of the client's version, and CEL rules."""

from __future__ import annotations

from typing import cast

from dray.api.custom.objects import CustomObject, whole
from dray.api.custom.structure import SchemaNode
from dray.api.resources import Resource
from dray.api.rules import Errors
from dray.api.validation.context import Context
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.wire import Wire


def create(resource: Resource, object_: Wire, context: Context) -> Errors:
    obj = cast(CustomObject, object_)
    yield from metadata(obj.metadata, resource.namespaced, any_finalizer=True)
    yield from _judged(_node(resource, context), obj, None, context)


def update(resource: Resource, object_: Wire, old: Wire, context: Context) -> Errors:
    obj, before = cast(CustomObject, object_), cast(CustomObject, old)
    yield from metadata_update(obj.metadata, before.metadata, any_finalizer=True)
    yield from _judged(_node(resource, context), obj, before, context)


def _node(resource: Resource, context: Context) -> SchemaNode:
    assert resource.custom is not None
    versions = resource.custom.versions
    return versions[context.version if context.version in versions else resource.stored].node


def _judged(node: SchemaNode, obj: CustomObject, old: CustomObject | None, context: Context) -> Errors:
    yield from context.object_errors(node, whole(obj), whole(old) if old is not None else None)
