"""NetworkPolicy: who may talk to some pods. It is only stored."""

from __future__ import annotations

from dray.api.cells import selector
from dray.api.columns import AGE, NAME, text
from dray.api.kind import NETWORKING, Resource
from dray.api.types import networking

KIND = Resource(
    NETWORKING,
    "networkpolicies",
    "NetworkPolicy",
    networking.NetworkPolicy,
    short_names=("netpol",),
    inert=True,
    columns=(
        NAME,
        text("Pod-Selector", lambda policy: selector(policy.spec.podSelector)),
        AGE,
    ),
)
