"""Writing the status of objects: the steps of one write, and writes that are decided again when they meet another.

Every part of the cluster writes a status with `Client.patch_status`. It is a JSON Patch over HTTP, since merge patches
lose the nulls of opaque parameters. It may address elements of lists by their places, because it holds only for the
state that was read. Left out: what a status says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, cast

import msgspec
from msgspec.structs import replace

from dray.api.errors import Conflict
from dray.api.wire import Tree
from dray.client.interface import Client, Object, T

_ATTEMPTS = 8  # more would hide two writers that undo each other


class _Conditioned(Protocol):
    """A status with conditions, of whatever type."""

    @property
    def conditions(self) -> tuple[Any, ...]: ...


S = TypeVar("S", bound=_Conditioned)


def status_steps(obj: Object, status: Any) -> list[Tree]:
    """The JSON Patch that makes `status` the status of an object which is still as it was read; empty for no change.

    What the reader's types do not know stays: only fields that differ are replaced, and only elements of lists.
    """
    before: Any = getattr(obj, "status", None)
    if before == status:
        return []
    meta = obj.metadata
    said = {"uid": meta.uid, "resourceVersion": meta.resourceVersion}
    steps = [{"op": "replace", "path": f"/metadata/{name}", "value": value} for name, value in said.items()]
    after = msgspec.to_builtins(status)
    if before is None or before == type(before)():  # servers leave out an empty status, and nothing can be put into it
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
    """Write what `change` makes of the status of an object, and return the object as it is then.

    When somebody else has written the object since it was read, it is read and changed again. Raises `NotFound` when
    it is gone, and `Conflict` when another object has its name.
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
    """A status with the conditions that are told in the places of the ones of their types, or at the end.

    A condition whose status is as before keeps the time of its last transition.
    """
    known = {condition.type: condition for condition in status.conditions}
    for condition in told:
        before = known.get(condition.type)
        if before is not None and before.status == condition.status and before.lastTransitionTime:
            condition = replace(condition, lastTransitionTime=before.lastTransitionTime)
        known[condition.type] = condition
    return cast(S, replace(cast(Any, status), conditions=tuple(known.values())))


def with_fields(status: S, fields: Tree) -> S:
    """A status with the fields that a tree says in place of its own; conditions as in `with_conditions`."""
    said = msgspec.convert(fields, type(status))
    told = {name: getattr(said, name) for name in fields if name != "conditions"}
    return cast(S, replace(cast(Any, with_conditions(status, *said.conditions)), **told))
