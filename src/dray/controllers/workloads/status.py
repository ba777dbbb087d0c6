"""Writing the status of a workload: only on the state that it was computed from, and only where it differs.

Left out: what the status says.
"""

from __future__ import annotations

from typing import Any

from dray.api.wire import Wire
from dray.client import Client, Tree
from dray.controllers.workloads.writes import OwnWrites


async def write_status(
    client: Client, writes: OwnWrites, obj: Any, status: Wire, annotations: Tree | None = None
) -> bool:
    """Make the status of `obj` the given one, after its annotations; returns whether anything was written.

    Raises Conflict when somebody else has written the object since it was read.
    """
    if status == obj.status and not annotations:
        return False
    if annotations:  # through the status, since annotations of a deployment count as a change of what it wants
        meta = obj.metadata
        said = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "annotations": annotations}
        obj = await client.patch(type(obj), meta.name, {"metadata": said}, meta.namespace, subresource="status")
        writes.wrote(obj, obj)
    if status != obj.status:
        written = await client.patch_status(obj, status)
        writes.wrote(written, written)
    return True
