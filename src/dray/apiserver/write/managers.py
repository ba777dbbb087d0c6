"""Who manages which field of an object: when it is kept, and what an apply makes of it.

Every write over HTTP is kept in metadata.managedFields, as is every write that names its manager. The cluster's own parts
write thousands of times a second within the process and are kept only once somebody applies the object, since only then
does anybody ask; an object without entries is treated as Kubernetes treats one from before the first apply. Who creates an
object manages what was written and its defaults, and nobody what admission adds.
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
_RESET: Entries = [{}]  # what a client writes to have all entries forgotten
_ELEMENTS = ("f:", "k:", "v:", "i:")  # how parts of a field set begin: a field, keys, a value, a place
_LONGEST = 128


def manager_of(request: Request) -> str:
    """Who is said to write: as named, or by the first word of the user agent."""
    return (request.options.field_manager or request.user_agent.partition("/")[0] or "unknown")[:_LONGEST]


def track(request: Request, current: KeyVersion | None, tree: Tree) -> None:
    """Put up-to-date entries into the tree that is about to be stored."""
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
        entries = said  # kubectl writes them to hand over what it set before to its applier
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
    """Lay the applied tree over the current object. Raises Conflict, naming who owns what."""
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
    """A private tree of a stored state."""
    return cast(Tree, msgspec.json.decode(cast(bytes, version.value)))


def _had_entries(version: KeyVersion) -> bool:
    return bool(cast(Any, version.object).metadata.managedFields)


def _is_sound(entry: Tree) -> bool:
    """Whether an entry that a client wrote can be worked with; else those that are stored stay."""
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
