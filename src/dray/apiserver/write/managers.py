"""When managedFields are recorded, and how server-side apply is called.

Every write over HTTP is recorded in metadata.managedFields, as is every write that names its manager. Components in
the same process write thousands of times per second. Their writes are recorded only after the object has been applied
once, because only then the managers matter. An object without entries is treated as Kubernetes treats an object from
before the first apply. The creator of an object owns the written fields and their defaults; fields that admission
adds have no owner.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from dray.api.errors import required
from dray.api.wire import Tree
from dray.apiserver.request import Request
from dray.apiserver.wire.queries import OptionsInvalid
from dray.apiserver.write.identity import now
from dray.apiserver.write.patches import Applied, server_side_apply, track_update
from dray.store import KeyVersion

Entries = list[Tree]

_BEFORE_FIRST_APPLY = "before-first-apply"
_RESET: Entries = [{}]  # written by a client to remove all entries
_ELEMENTS = ("f:", "k:", "v:", "i:")  # prefixes in a field set: field, keys, value, index
_LONGEST = 128


def manager_of(request: Request) -> str:
    """Return the field manager: as named by the request, or the user agent up to its first slash.

    Returns "unknown" if both are empty. A long name is cut.
    """
    return (request.options.field_manager or request.user_agent.partition("/")[0] or "unknown")[:_LONGEST]


def track(request: Request, current: KeyVersion | None, tree: Tree) -> None:
    """Update managedFields in a tree that is about to be stored."""
    metadata = tree["metadata"]
    said = metadata.pop("managedFields", None)
    reset = said == _RESET
    old = stored(current) if current is not None and _had_entries(current) else None
    entries = old["metadata"].pop("managedFields", []) if old else []
    applied = any(entry.get("operation") == "Apply" for entry in entries) if entries else False
    if not (request.tracked or request.options.field_manager or applied):
        if entries:
            metadata["managedFields"] = entries
        return
    if current is not None and old is None:
        old = stored(current)
    if current is not None and not request.subresource and said and not reset and all(map(_is_sound, said)):
        entries = said  # kubectl sets managedFields to hand its earlier fields over to its apply manager
    resource = request.resource
    entries = track_update(
        resource,
        old,
        tree,
        [] if reset else entries,
        manager=manager_of(request),
        time=now(),
        api_version=resource.api_version(request.version or resource.stored),
        subresource=request.subresource,
    )
    if entries:
        metadata["managedFields"] = entries


def apply(request: Request, current: KeyVersion | None) -> Applied:
    """Apply the body of the request to the current object. Returns the result with its managedFields.

    `current` is None if the object does not exist. Raises OptionsInvalid without a field manager, and Conflict, which
    names the owners, if another manager owns a changed field and the request does not force.
    """
    options, resource = request.options, request.resource
    if not options.field_manager:
        raise OptionsInvalid("PatchOptions", [required("fieldManager", "is required for apply patch")])
    live = stored(current) if current is not None else None
    entries: Entries = live["metadata"].pop("managedFields", []) if live is not None else []
    if live is not None and not entries:
        entries = track_update(resource, None, live, [], manager=_BEFORE_FIRST_APPLY, time=now())
    version = request.version or resource.stored
    return server_side_apply(
        resource,
        version,
        live,
        request.body,
        entries,
        manager=options.field_manager[:_LONGEST],
        time=now(),
        subresource=request.subresource,
        force=options.force,
    )


def stored(version: KeyVersion) -> Tree:
    """Return a new tree decoded from a stored state."""
    return cast(Tree, msgspec.json.decode(cast(bytes, version.value)))


def _had_entries(version: KeyVersion) -> bool:
    """Return whether the object has managedFields."""
    return bool(cast(Any, version.object).metadata.managedFields)


def _is_sound(entry: Tree) -> bool:
    """Return whether a managedFields entry written by a client is valid. If not, the stored entries are kept."""
    return (
        entry.get("operation") in ("Apply", "Update")
        and entry.get("fieldsType") == "FieldsV1"
        and bool(entry.get("apiVersion"))
        and _is_field_set(entry.get("fieldsV1"))
    )


def _is_field_set(value: Any) -> bool:
    return isinstance(value, dict) and all(
        (name == "." or name[:2] in _ELEMENTS) and _is_field_set(inner) for name, inner in value.items()
    )
