"""DaemonSet: keeps one pod on every node that fits."""

from __future__ import annotations

from dray.api.kind import ALL, STATUS, Resource
from dray.api.types import apps

KIND = Resource(
    "apps", "daemonsets", "DaemonSet", apps.DaemonSet, short_names=("ds",), categories=ALL, subresources=STATUS
)
