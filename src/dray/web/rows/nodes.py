"""Rows of nodes and classes."""

from __future__ import annotations

from collections.abc import Mapping

from dray.api.types.core import Node
from dray.api.types.resource import DeviceClass
from dray.web.tables import Strings, TableRow

_ZONE = "topology.kubernetes.io/zone"
_RACKS = ("topology.kubernetes.io/rack", "topology.dray.dev/rack")


def node_row(node: Node, strings: Strings) -> TableRow:
    """Return the row of a node."""
    labels = node.metadata.labels
    return (
        node.metadata.name,
        strings.number(labels.get(_ZONE, "")),
        strings.number(_rack(labels)),
        any(one.type == "Ready" and one.status == "True" for one in node.status.conditions),
        bool(node.spec.unschedulable),
        tuple(strings.number(f"{key}={value}") for key, value in sorted(labels.items())),
    )


def _rack(labels: Mapping[str, str]) -> str:
    """Return the rack of a node, or "". No rack label is standard: known labels first, then any label named `rack`."""
    for key in _RACKS:
        if key in labels:
            return labels[key]
    return next((labels[key] for key in sorted(labels) if key.rpartition("/")[2] == "rack"), "")


def class_row(one: DeviceClass) -> TableRow:
    """Return the row of a DeviceClass."""
    selectors = tuple(selector.cel.expression for selector in one.spec.selectors if selector.cel is not None)
    return one.metadata.name, selectors, one.spec.extendedResourceName or ""
