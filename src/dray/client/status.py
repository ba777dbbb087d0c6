"""Writing the status of objects: the JSON Patch of one write, and updates that are retried on conflict.

All components write a status with `Client.patch_status`. Over HTTP it is a JSON Patch, because merge patches lose
the nulls of opaque parameters. It can address list elements by index, because it applies only to the state that
was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dray.api.errors import Conflict
from dray.api.wire import Tree
from dray.client.interface import Client, Object, T

_ATTEMPTS = 8  # more attempts would hide two writers that revert each other


class _Conditioned(Protocol):
    """A status with conditions."""

    @property
    def conditions(self) -> tuple[Any, ...]: ...


S = TypeVar("S", bound=_Conditioned)


def status_steps(obj: Object, status: Any) -> list[Tree]:
    """Return the JSON Patch that sets the status of an object if it is unchanged since it was read; empty if the
    status is equal.

    Only fields and list elements that differ are replaced, so fields unknown to the client's types are preserved.
    """
    before: Any = getattr(obj, "status", None)
    if before == status:
        return []
    meta = obj.metadata
    said = {"uid": meta.uid, "resourceVersion": meta.resourceVersion}
    steps = [{"op": "replace", "path": f"/metadata/{name}", "value": value} for name, value in said.items()]
    after = msgspec.to_builtins(status)
    if before is None or before == type(before)():  # servers omit an empty status, so fields cannot be added to it
        return [*steps, {"op": "add", "path": "/status", "value": after}]
    return [*steps, *_fields(msgspec.to_builtins(before), after)]


def _fields(before: Tree, after: Tree) -> Iterator[Tree]:
    for name in before.keys() - after.keys():
        yield {"op": "remove", "path": f"/status/{name}"}
    for name, value in after.items():
        old = before.get(name)
        if old and isinstance(old, (list, tuple)):
            yield from _elements(f"/status/{name}", old, value)
        elif old != value:
            yield {"op": "add", "path": f"/status/{name}", "value": value}


def _elements(path: str, before: Sequence[Any], after: Sequence[Any]) -> Iterator[Tree]:
    for place in reversed(range(len(after), len(before))):
        yield {"op": "remove", "path": f"{path}/{place}"}
    for place, value in enumerate(after):
        if place >= len(before):
            yield {"op": "add", "path": f"{path}/-", "value": value}
        elif before[place] != value:
            yield {"op": "replace", "path": f"{path}/{place}", "value": value}


async def change_status(client: Client, obj: T, change: Callable[[T], Any]) -> T:
    """Write the status that `change` computes from an object. Returns the object afterwards.

    Nothing is written if the computed status is equal. If the object was changed since it was read, it is read again
    and the change is recomputed. Raises `NotFound` if the object was deleted, and `Conflict` if another object has
    its name or after too many attempts.
    """
    for _ in range(_ATTEMPTS):
        status = change(obj)
        if status == obj.status:  # type: ignore[attr-defined]  # only what has a status is changed
            return obj
        try:
            return await client.patch_status(obj, status)
        except Conflict as error:
            met, meta = error, obj.metadata
            obj = await client.get(type(obj), meta.name, meta.namespace)
            if obj.metadata.uid != meta.uid:
                raise
    raise met


def with_conditions(status: S, *told: Any) -> S:
    """Return the status with conditions added or replaced by type.

    A condition whose status is unchanged keeps its lastTransitionTime.
    """
    known = {condition.type: condition for condition in status.conditions}
    for condition in told:
        before = known.get(condition.type)
        if before is not None and before.status == condition.status and before.lastTransitionTime:
            condition = replace(condition, lastTransitionTime=before.lastTransitionTime)
        known[condition.type] = condition
    return cast(S, replace(cast(Any, status), conditions=tuple(known.values())))


def with_fields(status: S, fields: Tree) -> S:
    """Return the status with the fields of a tree replaced; conditions are merged as in `with_conditions`."""
    said = msgspec.convert(fields, type(status))
    told = {name: getattr(said, name) for name in fields if name != "conditions"}
    return cast(S, replace(cast(Any, with_conditions(status, *said.conditions)), **told))
