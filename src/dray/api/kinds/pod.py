"""Pod: containers that run together on one node."""

from __future__ import annotations

from dray.api.kind import ALL, Resource
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
)
