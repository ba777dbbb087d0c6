"""Pod: containers that run together on one node."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, TableColumn, text, wide
from dray.api.kind import ALL, Resource
from dray.api.podrows import PodRow, completion
from dray.api.types import core

KIND = Resource(
    "",
    "pods",
    "Pod",
    core.Pod,
    short_names=("po",),
    categories=ALL,
    subresources=(
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "proxy",
        "resize",
        "status",
    ),
    columns=(
        NAME,
        text("Ready", lambda row: f"{row.ready}/{row.total}"),
        text("Status", "reason"),
        TableColumn("Restarts", lambda row, now: row.restarts.text(now)),
        AGE,
        wide("IP", lambda row: next((a.ip for a in row.status.podIPs if a.ip), ""), NONE),
        wide("Node", "spec.nodeName", NONE),
        wide("Nominated Node", "status.nominatedNodeName", NONE),
        wide("Readiness Gates", "readiness_gates", NONE),
    ),
    view=PodRow,
    row_conditions=completion,
)
