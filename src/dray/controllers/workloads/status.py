"""Writes the status of a workload only if it differs and the object is unchanged since the status was computed.

Left out: the contents of a status.
"""

from __future__ import annotations

from typing import Any

from dray.api.wire import Wire
from dray.client import Client, Tree
from dray.controllers.workloads.writes import OwnWrites


async def write_status(
    client: Client, writes: OwnWrites, obj: Any, status: Wire, annotations: Tree | None = None
) -> bool:
    """Write annotations and status of `obj` if they differ. Returns whether anything was written.

    Raises Conflict if somebody else has changed the object since it was read.
    """
    if status == obj.status and not annotations:
        return False
    # through the status subresource, since a changed annotation of a Deployment would otherwise raise its generation
    if annotations:
        meta = obj.metadata
        said = {"uid": meta.uid, "resourceVersion": meta.resourceVersion, "annotations": annotations}
        obj = await client.patch(type(obj), meta.name, {"metadata": said}, meta.namespace, subresource="status")
        writes.wrote(obj, obj)
    if status != obj.status:
        written = await client.patch_status(obj, status)
        writes.wrote(written, written)
    return True
