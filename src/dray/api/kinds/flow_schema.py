"""FlowSchema: assigns requests to a priority level. It is only stored."""

from __future__ import annotations

from dray.api.kind import FLOWCONTROL, STATUS, Resource
from dray.api.types import flowcontrol

KIND = Resource(
    FLOWCONTROL, "flowschemas", "FlowSchema", flowcontrol.FlowSchema, namespaced=False, subresources=STATUS, inert=True
)
