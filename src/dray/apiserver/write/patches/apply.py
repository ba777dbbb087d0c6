"""Server-side apply: a client sends the fields it wants; the server knows which manager owns which field.

The applied tree is merged over the live object. Fields that the same manager applied earlier and now omits are
removed, unless another manager owns them too. Changing a field that another manager owns is a conflict, unless
`force` is set. Defaults, validation and storage follow elsewhere; the result is a tree in the applied version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.api.errors import BadRequest, Conflict
from dray.api.quoting import quote
from dray.api.resources import Resource
from dray.api.wire import Tree
from dray.apiserver.write.patches.field_sets import FieldSet, difference, intersection, paths, union
from dray.apiserver.write.patches.managed_fields import (
    APPLY,
    UPDATE,
    Changes,
    Entry,
    ManagerIdentity,
    Versions,
    arranged,
    identity,
    others,
    renewed,
    stripped,
)
from dray.apiserver.write.patches.rejection import BadPatch
from dray.apiserver.write.patches.tree import JsonValue, kind
from dray.apiserver.write.patches.typed import (
    FieldShape,
    applied_fields,
    compare,
    merged,
    problems,
    root,
    with_named_members,
    without,
)

_STATUS_PARTS = ("apiVersion", "kind", "metadata", "status")


class Applied(NamedTuple):
    """Result of an apply: the object in the applied version, and its managedFields."""

    tree: Tree
    managed: list[Entry]


def server_side_apply(
    resource: Resource,
    version: str,
    live: Tree | None,
    applied: JsonValue,
    managed: Sequence[Entry],
    *,
    manager: str,
    time: str,
    subresource: str = "",
    force: bool = False,
) -> Applied:
    """Apply a tree to the live object. Returns the resulting object and its managedFields.

    `live` is in the stored version, or None if the object is to be created. Raises Conflict if another manager owns a
    changed field and `force` is not set.
    """
    api_version = resource.api_version(version)
    shape = root(resource.message(version))
    wanted = _checked(resource, api_version, shape, applied, subresource)
    mine: ManagerIdentity = (manager, APPLY, "", subresource)
    speaks_of = applied_fields(shape, wanted)
    fields = stripped(speaks_of)
    if live is None:
        return Applied(wanted, [renewed(None, mine, fields, time, api_version)] if fields else [])
    before = next((entry for entry in managed if identity(entry) == mine), None)
    rest = [entry for entry in managed if identity(entry) != mine]
    old = Versions(resource, live)
    result = merged(shape, old.tree(api_version), wanted)
    if before:
        result = _pruned(Versions(resource, result, api_version), resource, api_version, before, speaks_of, rest)
    changes = Changes(old, Versions(resource, result, api_version))
    if not force:
        _refuse_conflicts(rest, changes)
    entries = others(managed, mine, changes)
    if fields:
        entries.append(renewed(before, mine, fields, time, api_version))
    return Applied(result, arranged(entries))


def _checked(resource: Resource, api_version: str, shape: FieldShape, applied: JsonValue, subresource: str) -> Tree:
    """Return the applied tree without the parts that the request cannot set. Raises BadRequest for an invalid tree."""
    if not isinstance(applied, dict):
        raise BadPatch(f"an applied configuration is an object, not a {kind(applied)}")
    for member, want in (("apiVersion", api_version), ("kind", resource.kind)):
        if applied.get(member) != want:
            raise BadRequest(f"an applied configuration needs {member} {quote(want)}, not {applied.get(member)!r}")
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    for problem in problems(shape, applied):
        name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        raise BadRequest(
            f"failed to create typed patch object ({name}; {api_version}, Kind={resource.kind}): {problem}"
        )
    if subresource == "status":
        return {key: applied[key] for key in _STATUS_PARTS if key in applied}
    owns_status = "status" in resource.subresources
    return {key: value for key, value in applied.items() if not (owns_status and key == "status")}


def _pruned(
    result: Versions,
    resource: Resource,
    api_version: str,
    before: Entry,
    speaks_of: FieldSet,
    rest: Sequence[Entry],
) -> Tree:
    """Return the result without fields that the manager applied before and now omits, unless others own them."""
    last = before.get("apiVersion", "")
    message = result.message(last)
    if message is None:
        return result.tree(api_version)
    owned: dict[str, FieldSet] = {api_version: speaks_of}
    for entry in rest:
        version = entry.get("apiVersion", "")
        owned[version] = union(owned.get(version, {}), entry.get("fieldsV1") or {})
    shape = root(message)
    kept = with_named_members(shape, owned.pop(last, {}))
    given_up = difference(with_named_members(shape, before.get("fieldsV1") or {}), kept)
    pruned = Versions(resource, without(shape, result.tree(last), given_up), last)
    for version, fields in owned.items():
        pruned = _given_back(resource, result, pruned, version, fields)
    return pruned.tree(api_version)


def _given_back(resource: Resource, whole: Versions, pruned: Versions, version: str, owned: FieldSet) -> Versions:
    """Return `pruned` with the removed fields restored that another manager owns in `version`."""
    message = whole.message(version)
    if message is None:
        return pruned
    shape = root(message)
    gone = compare(message, whole.tree(version), pruned.tree(version)).removed
    kept = with_named_members(shape, owned)
    if not intersection(gone, kept):
        return pruned
    return Versions(resource, without(shape, whole.tree(version), difference(gone, kept)), version)


def _refuse_conflicts(rest: Sequence[Entry], changes: Changes) -> None:
    """Raise Conflict if the changes touch fields of other managers."""
    found: list[tuple[str, str]] = []
    for entry in sorted(rest, key=identity):
        comparison = changes.within(entry.get("apiVersion", ""))
        if comparison:
            contested = intersection(entry.get("fieldsV1") or {}, comparison.changed)
            found += [(_owner(entry), path) for path in paths(contested)]
    if found:
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
            for owner, path in found
        ]
        raise Conflict(_conflict_text(found), causes=causes)


def _owner(entry: Entry) -> str:
    """Return the description of a manager in a conflict message."""
    text = quote(entry.get("manager", ""))
    if subresource := entry.get("subresource"):
        text += f" with subresource {quote(subresource)}"
    return f"{text} using {entry.get('apiVersion', '')}" if entry.get("operation") == UPDATE else text


def _conflict_text(found: list[tuple[str, str]]) -> str:
    """Return the message about conflicts, grouped by owner, in Kubernetes' wording."""
    if len(found) == 1:
        owner, path = found[0]
        return f"Apply failed with 1 conflict: conflict with {owner}: {path}"
    lines = []
    for owner in dict.fromkeys(owner for owner, _ in found):
        lines.append(f"conflicts with {owner}:")
        lines += [f"- {path}" for other, path in found if other == owner]
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
