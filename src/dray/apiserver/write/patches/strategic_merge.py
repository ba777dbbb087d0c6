"""Strategic merge patch: a merge patch in which the schema says which lists merge, and by which key.

Directives inside the patch control it: `$patch` (replace, delete, merge), `$retainKeys`, `$deleteFromPrimitiveList/x`
and `$setElementOrder/x`. The result contains no directives. A field that the schema does not have is merged as plain
JSON; field validation reports it. Merging is charged (`effort`), because a patch may name one element many times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from dray.api import schema
from dray.api.wire import Tree
from dray.apiserver.write.patches.effort import Effort
from dray.apiserver.write.patches.rejection import BadPatch, PatchRejected
from dray.apiserver.write.patches.tree import LISTS, JsonValue, kind

DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
DELETE_PREFIX = "$deleteFromPrimitiveList/"
ORDER_PREFIX = "$setElementOrder/"

ElementIdentity: TypeAlias = str | int | float | bool | None


def strategic_merge(message_name: str, tree: Tree, patch: JsonValue, effort: Effort | None = None) -> Tree:
    """Return the tree with the patch applied; `message_name` is its schema. Unchanged parts are shared.

    Raises BadPatch, PatchRejected, TooLarge or TakesLong.

    >>> pod = {"metadata": {"finalizers": ["a"]}}
    >>> strategic_merge("io.k8s.api.core.v1.Pod", pod, {"metadata": {"finalizers": ["b"]}})
    {'metadata': {'finalizers': ['b', 'a']}}
    """
    if not isinstance(patch, dict):
        raise BadPatch(f"a strategic merge patch is an object, not a {kind(patch)}")
    return _object(f"ref:{message_name}", tree, patch, effort or Effort())


def _field(type_: str, key: str) -> schema.Field | None:
    """Return the schema field of an object's member, or None if the schema does not have it."""
    if type_.startswith("ref:"):
        return schema.message(type_[4:]).fields.get(key)
    return schema.Field(type=type_[1:]) if type_.startswith("{") else None


def _object(type_: str, tree: Tree, patch: Tree, effort: Effort) -> Tree:
    """Return an object with a patch and its directives applied; empty if the directive is `delete`.

    `type_` is the name of the object's type. Raises PatchRejected for an unknown directive.
    """
    effort.merge_object(len(tree), len(patch))
    directive = patch.get(DIRECTIVE, "merge")
    if directive == "delete":
        return {}
    if directive not in ("merge", "replace"):
        raise PatchRejected(f"unknown directive {DIRECTIVE}: {directive!r}")
    merged = {} if directive == "replace" else _retained(tree, patch)
    steering = {key: value for key, value in patch.items() if key[:1] == "$" and _steers(key)}
    before = dict(merged) if steering else merged
    for key, value in steering.items():
        effort.merge_list(_length(value), _length(merged.get(key.partition("/")[2])))
        if key.startswith(DELETE_PREFIX):
            _delete_values(merged, key.removeprefix(DELETE_PREFIX), value)
    for key, value in patch.items():
        if key in steering:
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _value(_field(type_, key), merged.get(key), value, effort)
    for key, value in steering.items():
        if key.startswith(ORDER_PREFIX):
            name = key.removeprefix(ORDER_PREFIX)
            _set_order(merged, name, _list(key, value), _field(type_, name), before.get(name), patch.get(name))
    return merged


def _steers(key: str) -> bool:
    """Return whether a member of a patch is a directive."""
    return key in (DIRECTIVE, RETAIN) or key.startswith((DELETE_PREFIX, ORDER_PREFIX))


def _length(value: JsonValue) -> int:
    return len(value) if isinstance(value, LISTS) else 0


def _list(what: str, value: JsonValue) -> Sequence[Any]:
    """Return the value if it is a list. Raises PatchRejected otherwise; `what` names it in the message."""
    if not isinstance(value, LISTS):
        raise PatchRejected(f"{what} is a list, not a {kind(value)}")
    return value


def _retained(tree: Tree, patch: Tree) -> Tree:
    """Return a copy of the object, with only the keys in `$retainKeys` if the patch has that directive.

    Raises PatchRejected if the patch sets a key that the directive does not list.
    """
    if RETAIN not in patch:
        return dict(tree)
    keys = {_identity(name, "") for name in _list(RETAIN, patch[RETAIN])}
    lost = [key for key in patch if not key.startswith("$") and patch[key] is not None and key not in keys]
    if lost:
        raise PatchRejected(f"{RETAIN} does not retain {lost[0]!r}, which the patch sets")
    return {key: value for key, value in tree.items() if key in keys}


def _delete_values(merged: Tree, key: str, values: JsonValue) -> None:
    """Remove values from the list `key` of an object, as `$deleteFromPrimitiveList` demands."""
    doomed = _list(DELETE_PREFIX + key, values)
    if isinstance(old := merged.get(key), LISTS):
        gone = {_identity(value, "") for value in doomed}
        merged[key] = [value for value in old if _identity(value, "") not in gone]


def _value(field: schema.Field | None, old: JsonValue, patch: JsonValue, effort: Effort) -> JsonValue:
    """Return the value of a field after a patch: merged for objects and merging lists, else replaced."""
    type_ = field.type if field else ""
    if isinstance(patch, dict):
        return _object(type_, old if isinstance(old, dict) else {}, patch, effort)
    if isinstance(patch, LISTS) and field and "merge" in field.patch_strategy.split(","):
        return _merged_list(field, old if isinstance(old, LISTS) else (), patch, effort)
    return patch


def _merged_list(field: schema.Field, old: Sequence[Any], patch: Sequence[Any], effort: Effort) -> list[Any]:
    """Return a list with a patch merged by merge key, or by value for a list of primitives.

    Raises PatchRejected if an element of the patch lacks the merge key.
    """
    effort.merge_list(len(old), len(patch))
    key = field.patch_key
    if not field.reference:
        known = {_identity(value, key) for value in old}
        return _ordered([*old, *(value for value in patch if _identity(value, key) not in known)], patch, old, key)
    directives = [_directive(item, key) for item in patch]
    plain = [item for item, directive in zip(patch, directives, strict=True) if directive == "merge"]
    if "replace" in directives:
        return [_object(field.element, {}, item, effort) for item in plain]
    doomed = {_identity(item, key) for item, what in zip(patch, directives, strict=True) if what == "delete"}
    merged = [item for item in old if _identity(item, key) not in doomed]
    places = {_identity(item, key): place for place, item in enumerate(merged)}
    for item in plain:
        identity = _identity(item, key)
        if identity is None:
            raise PatchRejected(f"an element of the list lacks its merge key {key!r}")
        if identity in places:
            place = places[identity]
            merged[place] = _object(field.element, merged[place], item, effort)
        else:
            places[identity] = len(merged)
            merged.append(_object(field.element, {}, item, effort))
    return _ordered(merged, plain, old, key)


def _directive(item: JsonValue, key: str) -> str:
    """Return the `$patch` directive of an element of a list that merges by key: merge, replace or delete.

    Returns "merge" if there is none. Raises PatchRejected if the element is not an object, the directive is unknown,
    or an element to delete lacks its merge key.
    """
    if not isinstance(item, dict):
        raise PatchRejected(f"an element of a list that merges by {key!r} is an object, not a {kind(item)}")
    directive = item.get(DIRECTIVE, "merge")
    if directive not in ("merge", "replace", "delete"):
        raise PatchRejected(f"unknown directive {DIRECTIVE}: {directive!r}")
    if directive == "delete" and _identity(item, key) is None:
        raise PatchRejected(f"an element to delete lacks its merge key {key!r}")
    return str(directive)


def _identity(item: JsonValue, key: str) -> ElementIdentity:
    """Return the merge key of an element, or the element itself if it is a primitive value.

    Returns None if the element lacks the key. Raises PatchRejected if the key is a list or an object.
    """
    value = item.get(key) if isinstance(item, dict) else item
    if value is not None and not isinstance(value, (str, int, float)):
        raise PatchRejected(f"a merge key is a plain value, not a {kind(value)}")
    return value


def _set_order(
    merged: Tree, name: str, order: Sequence[Any], field: schema.Field | None, before: JsonValue, patched: JsonValue
) -> None:
    """Sort a merged list as `$setElementOrder` demands.

    Raises PatchRejected if the patch's own elements have another order.
    """
    key = field.patch_key if field else ""
    if isinstance(patched, LISTS):
        places = _places(order, key)
        sent = [_identity(item, key) for item in patched if not (isinstance(item, dict) and DIRECTIVE in item)]
        if any(item not in places for item in sent) or sent != sorted(sent, key=lambda item: places[item]):
            raise PatchRejected(f"the order of {name} does not match {ORDER_PREFIX}{name}")
    if isinstance(current := merged.get(name), LISTS):
        merged[name] = _ordered(current, order, before if isinstance(before, LISTS) else (), key)


def _places(items: Iterable[Any], key: str) -> dict[ElementIdentity, int]:
    """Return the position of each item by its identity."""
    return {_identity(item, key): place for place, item in enumerate(items)}


def _ordered(items: Sequence[Any], wanted: Sequence[Any], server: Sequence[Any], key: str) -> list[Any]:
    """Return the items with the `wanted` ones in that order, and the others in between as on the server.

    An item that the patch does not name goes before the first wanted item that follows it on the server.
    """
    places, before = _places(wanted, key), _places(server, key)
    named = sorted((i for i in items if _identity(i, key) in places), key=lambda i: places[_identity(i, key)])
    if len(named) == len(items):
        return named
    others = sorted(
        (i for i in items if _identity(i, key) not in places), key=lambda i: before.get(_identity(i, key), len(before))
    )
    arranged: list[Any] = []
    next_other = 0
    for item in named:
        place = before.get(_identity(item, key), -1)
        while next_other < len(others) and before.get(_identity(others[next_other], key), place) < place:
            arranged.append(others[next_other])
            next_other += 1
        arranged.append(item)
    return arranged + others[next_other:]
