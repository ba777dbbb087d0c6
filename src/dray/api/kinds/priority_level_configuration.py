"""PriorityLevelConfiguration: how many requests of a level run at the same time. It is only stored."""

from __future__ import annotations

from dray.api.kind import FLOWCONTROL, STATUS, Resource
from dray.api.types import flowcontrol

KIND = Resource(
    FLOWCONTROL,
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    flowcontrol.PriorityLevelConfiguration,
    namespaced=False,
    subresources=STATUS,
    inert=True,
)
