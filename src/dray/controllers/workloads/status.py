"""Writing a status: only what changed, only on the state that it was computed from.

Left out: what the status says.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.wire import Wire
from dray.client import Client, Tree
from dray.client.interface import T
from dray.controllers.workloads.writes import OwnWrites


def difference(old: Wire, new: Wire) -> Tree:
    """The merge patch that makes the one the other; empty when they are equal."""
    before: Tree = msgspec.to_builtins(old)
    after: Tree = msgspec.to_builtins(new)
    changed: Tree = {name: value for name, value in after.items() if before.get(name, msgspec.UNSET) != value}
    return changed | dict.fromkeys(before.keys() - after.keys())


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
