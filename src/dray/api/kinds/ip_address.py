"""IPAddress: an address that is taken, and by what. It is only stored: addresses of Services are not reserved yet."""

from __future__ import annotations

from dray.api.kind import NETWORKING, Resource
from dray.api.types import networking

KIND = Resource(
    NETWORKING, "ipaddresses", "IPAddress", networking.IPAddress, namespaced=False, short_names=("ip",), inert=True
)
