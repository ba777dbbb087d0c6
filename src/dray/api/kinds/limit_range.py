"""LimitRange: limits and defaults of the resources that containers and claims in a namespace request."""

from __future__ import annotations

from dray.api.cells import UNKNOWN
from dray.api.columns import NAME, text
from dray.api.kind import KindRules, Resource
from dray.api.types import core
from dray.api.wire import Tree


def _defaults(tree: Tree) -> None:
    """Add default limits of containers from their maximum, and default requests from their minimum and limits."""
    for item in tree.setdefault("spec", {}).get("limits") or ():
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            item.update({name: value for name, value in (("default", limits), ("defaultRequest", requests)) if value})


KIND = Resource(
    core.LimitRange,
    short_names=("limits",),
    columns=(NAME, text("Created At", "metadata.creationTimestamp", UNKNOWN)),
    rules=KindRules(order=("metadata", "rules", "changes")),
    more_defaults=_defaults,
    is_created_by_update=True,
)
