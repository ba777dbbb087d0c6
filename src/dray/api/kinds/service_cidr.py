"""ServiceCIDR: a range of IP addresses for Services."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, text
from dray.api.kind import STATUS, Resource
from dray.api.types import networking

KIND = Resource(
    networking.ServiceCIDR,
    namespaced=False,
    subresources=STATUS,
    columns=(NAME, text("CIDRs", lambda range_: ",".join(range_.spec.cidrs)), AGE),
)
