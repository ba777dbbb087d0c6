"""Node: a machine that runs pods."""

from __future__ import annotations

from dray.api.kind import Resource
from dray.api.types import core

KIND = Resource("", "nodes", "Node", core.Node, namespaced=False, short_names=("no",), subresources=("proxy", "status"))
