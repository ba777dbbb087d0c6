"""Patches of a status or of a few fields of metadata: the short way of the cluster's own parts.

Controllers and the scheduler write a status, a finalizer or a label thousands of times a second. What they leave alone
was checked and defaulted when it was written, so only the part that changes is merged, checked and made typed; the rest
is shared with the state before. The answer is the same as that of the long way, and whatever is out of the ordinary
(another version, fields that somebody applied, a field that does not fit) is left to it: `None` says so.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import msgspec

from dray.api import conversion, decode, schema, strategy
from dray.api.gates import FeatureGates
from dray.api.resources import Resource
from dray.api.wire import Wire
from dray.apiserver.patches import merge_patch, strategic_merge
from dray.apiserver.request import MERGE_PATCH, STRATEGIC_PATCH, Request
from dray.store import Version

Tree = dict[str, Any]

_CONDITIONS = frozenset({"uid", "resourceVersion", "name", "namespace"})  # say what is meant, change nothing
_LIGHT = _CONDITIONS | {"finalizers", "labels", "annotations", "ownerReferences"}
_STEERED_BY_ANNOTATIONS = frozenset({"Deployment"})  # where metadata changes the generation


def patched(request: Request, current: Version, gates: FeatureGates) -> Wire | None:
    """The object that a patch of one part makes, or None where the long way must be taken."""
    patch, old = request.body, cast(Any, current.object)
    if not _is_ordinary(request, old) or not isinstance(patch, dict):
        return None
    metadata = patch.get("metadata") or {}
    if not isinstance(metadata, dict) or not _meant(request, metadata, old, current):
        return None
    if request.subresource == "status" and patch.keys() <= {"metadata", "status"} and metadata.keys() <= _CONDITIONS:
        status = patch.get("status")
        if isinstance(status, Wire):
            return _with_typed_status(request, old, status, gates)
        return _with_status(request, old, status, gates)
    if request.subresource == "" and patch.keys() <= {"metadata"} and metadata.keys() <= _LIGHT:
        return _with_metadata(request, old, metadata)
    return None


def _is_ordinary(request: Request, old: Any) -> bool:
    resource, options = request.resource, request.options
    return (
        not request.tracked
        and not options.field_manager
        and not any(entry.operation == "Apply" for entry in old.metadata.managedFields)
        and request.version in ("", resource.stored)
        and options.patch_type in (MERGE_PATCH, STRATEGIC_PATCH)
        and conversion.home(resource) is resource
    )


def _meant(request: Request, metadata: Tree, old: Any, current: Version) -> bool:
    """Whether the object is the one that the patch is about; the long way words what is wrong otherwise."""
    return (
        metadata.get("uid", old.metadata.uid) == old.metadata.uid
        and metadata.get("resourceVersion") in (None, "", str(current.revision))
        and metadata.get("name", request.name) == request.name
        and metadata.get("namespace", request.namespace) == request.namespace
    )


def _with_status(request: Request, old: Any, patch: Any, gates: FeatureGates) -> Wire | None:
    if not isinstance(patch, dict) or old.status is None:
        return None
    message, type_ = _part(request.resource, "status"), type(old.status)
    tree: Tree = {"status": _merged(request, message, msgspec.to_builtins(old.status), patch)}
    strategy.prepare_status(request.resource, tree, old, gates)
    status = decode.part(message, type_, tree["status"])
    if status is None:
        return None
    return cast(Wire, msgspec.structs.replace(old, status=status, metadata=_unversioned(old.metadata)))


def _with_typed_status(request: Request, old: Any, patch: Wire, gates: FeatureGates) -> Wire | None:
    """Fields that a typed status says replace those that were there; what must be merged in depth is for the long way."""
    before = old.status
    if request.options.patch_type != MERGE_PATCH or not strategy.stands(request.resource, patch, gates):
        return None
    said: Tree = {}
    for name, unsaid in _unsaid(type(patch)):
        value = getattr(patch, name)
        if value is not unsaid and value != unsaid:
            if isinstance(value, (Wire, dict)) and getattr(before, name) != unsaid:
                return None
            said[name] = value
    status = msgspec.structs.replace(before, **said)
    return cast(Wire, msgspec.structs.replace(old, status=status, metadata=_unversioned(old.metadata)))


@cache
def _unsaid(type_: type[Wire]) -> tuple[tuple[str, Any], ...]:
    """The fields of a type, with the values that they have when nothing was said."""
    blank = type_()
    return tuple((name, getattr(blank, name)) for name in type_.__struct_fields__)


def _with_metadata(request: Request, old: Any, patch: Tree) -> Wire | None:
    if request.resource.kind in _STEERED_BY_ANNOTATIONS:
        return None
    message, type_ = _part(request.resource, "metadata"), type(old.metadata)
    tree = _merged(request, message, msgspec.to_builtins(old.metadata), patch)
    tree.pop("resourceVersion", None)
    metadata = decode.part(message, type_, tree)
    return None if metadata is None else cast(Wire, msgspec.structs.replace(old, metadata=metadata))


def _merged(request: Request, message: str, tree: Tree, patch: Tree) -> Tree:
    if request.options.patch_type == MERGE_PATCH:
        return merge_patch(tree, patch)
    return strategic_merge(message, tree, patch)


@cache
def _part(resource: Resource, name: str) -> str:
    return schema.message(resource.message()).fields[name].reference


def _unversioned(metadata: Any) -> Any:
    """Stored objects carry no resourceVersion."""
    return msgspec.structs.replace(metadata, resourceVersion="")
