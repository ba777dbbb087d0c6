"""Writing a status: only what changed, only on the state that it was computed from.

Left out: what the status says.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.wire import Wire
from dray.client import Client, Tree
from dray.client.interface import T
from dray.controllers.workloads.pods import tree_of
from dray.controllers.workloads.writes import OwnWrites


def difference(old: Wire, new: Wire) -> Tree:
    """The merge patch that makes the one the other; empty when they are equal."""
    return {} if old == new else _difference(tree_of(old), tree_of(new))


def _difference(before: Tree, after: Tree) -> Tree:
    changed: Tree = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        if name not in before or not isinstance(value, dict):
            if before.get(name, msgspec.UNSET) != value:
                changed[name] = value
        elif part := _difference(before[name], value):
            changed[name] = part
    return changed


async def write_status(
    client: Client, writes: OwnWrites, type_: type[T], obj: Any, status: Wire, annotations: Tree | None = None
) -> bool:
    """Make the status of `obj` the given one, together with annotations; returns whether anything was written.

    Raises Conflict when somebody else has written the object since it was read.
    """
    patch: Tree = {"metadata": {"resourceVersion": obj.metadata.resourceVersion}}
    if annotations:
        patch["metadata"]["annotations"] = annotations
    if changed := difference(obj.status, status):
        patch["status"] = changed
    if not changed and not annotations:
        return False
    written = await client.patch(type_, obj.metadata.name, patch, obj.metadata.namespace, subresource="status")
    writes.wrote(written, written)
    return True
