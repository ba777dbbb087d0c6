"""The entries of metadata.managedFields, updated with every write.

An entry belongs to a manager, an operation, an API version and a subresource; an apply entry is kept when its manager
changes the version. A manager that changes a field becomes its only owner; a removed field has no owner. A field set
uses the version of its entry, so changes are computed in each version that has an entry. The merge of server-side
apply is in `apply`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from dray.api import conversion
from dray.api.resources import Resource
from dray.api.wire import Tree, tree_of
from dray.apiserver.write.patches.field_sets import FieldSet, difference, intersection, union
from dray.apiserver.write.patches.typed import Comparison, compare, created_fields

Entry: TypeAlias = dict[str, Any]
ManagerIdentity: TypeAlias = tuple[str, str, str, str]

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATERS = 10  # update entries that an object keeps; older entries are combined, as in Kubernetes
ANCIENT = "ancient-changes"
# Fields that the server decides or that only identify the object.
_IGNORED_TOP = ("f:apiVersion", "f:kind")
_IGNORED_METADATA = frozenset(
    f"f:{name}"
    for name in (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "selfLink",
        "managedFields",
    )
)


class Versions:
    """One object in every API version that entries use, converted on demand.

    The tree is in `api_version`; if that is empty, in the stored version.
    """

    def __init__(self, resource: Resource, tree: Tree, api_version: str = "") -> None:
        self._resource = resource
        self._home = resource.home
        self._given = api_version or self._home.api_version()
        self._trees = {self._given: tree}

    def message(self, api_version: str) -> str | None:
        """Return the schema name of an API version, or None if the version does not exist."""
        for resource in (self._resource, self._home):
            for version in resource.versions:
                if resource.api_version(version) == api_version:
                    return resource.message(version)
        return None

    def tree(self, api_version: str) -> Tree:
        """Return the object in an API version, converted at most once. Conversions change a copy."""
        if api_version not in self._trees:
            stored = self._home.api_version()
            if api_version == stored:
                given = tree_of(self._trees[self._given])
                self._trees[stored] = conversion.to_stored(self._resource, _version(self._given), given)
            else:
                copy = tree_of(self.tree(stored))
                self._trees[api_version] = conversion.from_stored(self._resource, _version(api_version), copy)
        return self._trees[api_version]


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]


class Changes:
    """Changes of an object, computed in any API version."""

    def __init__(self, old: Versions, new: Versions) -> None:
        self._old, self._new = old, new
        self._known: dict[str, Comparison | None] = {}

    def within(self, api_version: str) -> Comparison | None:
        """Return the changes in an API version, or None if the version no longer exists."""
        if api_version not in self._known:
            message = self._new.message(api_version)
            self._known[api_version] = (
                compare(message, self._old.tree(api_version), self._new.tree(api_version)) if message else None
            )
        return self._known[api_version]


def track_update(
    resource: Resource,
    old: Tree | None,
    new: Tree,
    managed: Sequence[Entry],
    *,
    manager: str,
    time: str,
    api_version: str = "",
    subresource: str = "",
) -> list[Entry]:
    """Return the managedFields after a create (`old` is None), update or patch by a manager.

    Both trees are in the stored version, with defaults; `api_version` is the version of the client's body. Later
    changes of a new object by admission and strategy have no owner.
    """
    api_version = api_version or resource.home.api_version()
    after = Versions(resource, new)
    message = after.message(api_version)
    if message is None:
        return list(managed)
    mine = (manager, UPDATE, api_version, subresource)
    if old is None:
        fields = _own(resource, subresource, created_fields(message, after.tree(api_version)))
        return arranged([*managed, made(mine, fields, time)] if fields else managed)
    changes = Changes(Versions(resource, old), after)
    here = changes.within(api_version)
    assert here is not None
    if not here.changed and not here.removed:
        return list(managed)
    entries = others(managed, mine, changes)
    before = next((entry for entry in managed if identity(entry) == mine), None)
    fields = difference(before.get("fieldsV1") or {}, here.removed) if before else {}
    fields = _own(resource, subresource, union(fields, here.changed))
    if fields:
        entries.append(renewed(before, mine, fields, time))
    return arranged(_capped(entries))


def others(managed: Sequence[Entry], mine: ManagerIdentity, changes: Changes) -> list[Entry]:
    """Return the entries of other managers without the fields that changed.

    Entries without remaining fields, or in an API version that no longer exists, are dropped.
    """
    result: list[Entry] = []
    for entry in managed:
        if identity(entry) == mine:
            continue
        found = changes.within(entry.get("apiVersion", ""))
        if found is None:
            continue
        fields = entry.get("fieldsV1") or {}
        lost = union(found.changed, found.removed)
        if not intersection(fields, lost):
            result.append(entry)
        elif rest := difference(fields, lost):
            result.append({**entry, "fieldsV1": rest})
    return result


def identity(entry: Entry) -> ManagerIdentity:
    """Return the manager, operation, version (empty for an apply) and subresource that identify an entry."""
    operation = entry.get("operation", "")
    version = "" if operation == APPLY else entry.get("apiVersion", "")
    return entry.get("manager", ""), operation, version, entry.get("subresource", "")


def made(owner: ManagerIdentity, fields: FieldSet, time: str, api_version: str = "") -> Entry:
    """Return a new managedFields entry for an owner, with these fields and time."""
    manager, operation, version, subresource = owner
    entry: Entry = {
        "manager": manager,
        "operation": operation,
        "apiVersion": version or api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if subresource:
        entry["subresource"] = subresource
    return entry


def renewed(before: Entry | None, owner: ManagerIdentity, fields: FieldSet, time: str, api_version: str = "") -> Entry:
    """Return an entry with new fields, or `before` with its time if fields and API version are the same.

    `before` is the owner's earlier entry, or None.
    """
    entry = made(owner, fields, time, api_version)
    if before and before.get("fieldsV1") == fields and before.get("apiVersion") == entry["apiVersion"]:
        return before
    return entry


def stripped(fields: FieldSet) -> FieldSet:
    """Return the set without fields that cannot have an owner."""
    result = {key: value for key, value in fields.items() if key not in _IGNORED_TOP}
    if "f:metadata" in result:
        kept = {key: value for key, value in result["f:metadata"].items() if key not in _IGNORED_METADATA}
        kept.pop(".", None)
        result.pop("f:metadata")
        if kept:
            result["f:metadata"] = kept
    return result


def _own(resource: Resource, subresource: str, fields: FieldSet) -> FieldSet:
    """Return the set without fields that cannot have an owner or that this subresource cannot set."""
    foreign = {"": "f:status" if "status" in resource.subresources else "", "status": "f:spec"}.get(subresource, "")
    result = stripped(fields)
    result.pop(foreign, None)
    return result


def arranged(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries sorted by operation (applies before updates), then by time, then by manager."""
    return sorted(entries, key=lambda e: (e.get("operation", ""), e.get("time") or "", *identity(e)))


def _capped(entries: list[Entry]) -> list[Entry]:
    """Return the entries with at most ten for updates. The oldest are combined into one per API version."""
    updates = sorted((e for e in entries if e.get("operation") == UPDATE), key=lambda e: e.get("time") or "")
    surplus = len(updates) - MAX_UPDATERS
    if surplus <= 0:
        return entries
    oldest = updates[: surplus + 1]
    kept = [entry for entry in entries if not any(entry is old for old in oldest)]
    ancient: dict[str, Entry] = {}
    for entry in oldest:
        version = entry.get("apiVersion", "")
        so_far = ancient[version]["fieldsV1"] if version in ancient else {}
        fields = union(so_far, entry.get("fieldsV1") or {})
        ancient[version] = made((ANCIENT, UPDATE, version, ""), fields, entry.get("time") or "")
    return [*kept, *ancient.values()]
