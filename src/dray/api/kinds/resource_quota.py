"""ResourceQuota: limits the resource usage of a namespace."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, text
from dray.api.kind import STATUS, Resource
from dray.api.types import core


def _amounts(quota: core.ResourceQuota, limits: bool) -> str:
    hard, used = quota.status.hard, quota.status.used
    names = [name for name in sorted(hard) if name.startswith("limits.") is limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


KIND = Resource(
    core.ResourceQuota,
    short_names=("quota",),
    subresources=STATUS,
    columns=(
        NAME,
        text("Request", lambda quota: _amounts(quota, limits=False)),
        text("Limit", lambda quota: _amounts(quota, limits=True)),
        AGE,
    ),
    is_returned_when_deleted=True,
)
