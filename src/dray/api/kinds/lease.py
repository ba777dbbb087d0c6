"""Lease: the holder of a role, and until when the holder has it."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.types import coordination

KIND = Resource(
    coordination.Lease,
    columns=(NAME, text("Holder", "spec.holderIdentity"), AGE),
    conditional=("v1",),
    is_created_by_update=True,
)
