"""Which resources exist: one row a resource, the only list of them.

Discovery, routing, storage keys, OpenAPI, clients and controllers read this table. `message` names the schema's
messages by version; the stored version has a struct in `dray.api.types`. A row says nothing about behaviour.
"""

from __future__ import annotations

from dray.api.resources import access, core, devices, infrastructure, workloads
from dray.api.resources.row import (
    ADMISSION,
    ALL_VERBS,
    AUTHENTICATION,
    AUTHORIZATION,
    CREATE_ONLY,
    DRA,
    EXTENSIONS,
    FLOWCONTROL,
    METRICS,
    NETWORKING,
    RBAC,
    REGISTRATION,
    SCHEDULING,
    STORAGE,
    Resource,
)
from dray.api.wire import Wire

__all__ = [
    "ADMISSION",
    "ALL_VERBS",
    "AUTHENTICATION",
    "AUTHORIZATION",
    "BY_KIND",
    "BY_NAME",
    "BY_TYPE",
    "CREATE_ONLY",
    "DRA",
    "EXTENSIONS",
    "FLOWCONTROL",
    "METRICS",
    "NETWORKING",
    "RBAC",
    "REGISTRATION",
    "RESOURCES",
    "SCHEDULING",
    "STORAGE",
    "Resource",
]

RESOURCES: tuple[Resource, ...] = core.ROWS + workloads.ROWS + access.ROWS + infrastructure.ROWS + devices.ROWS
BY_TYPE: dict[type[Wire], Resource] = {r.type: r for r in RESOURCES}
BY_NAME: dict[tuple[str, str], Resource] = {(r.group, r.plural): r for r in RESOURCES}
BY_KIND: dict[tuple[str, str], Resource] = {(r.group, r.kind): r for r in RESOURCES}
