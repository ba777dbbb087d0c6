"""IPAddress: an address that is taken, and by what. It is only stored: addresses of Services are not reserved yet."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, text
from dray.api.kind import NETWORKING, Resource
from dray.api.types import networking


def _parent(address: networking.IPAddress) -> str:
    parent = address.spec.parentRef
    parts = (parent.group, parent.resource, parent.namespace, parent.name) if parent else ()
    return "/".join(filter(None, parts))


KIND = Resource(
    NETWORKING,
    "ipaddresses",
    "IPAddress",
    networking.IPAddress,
    namespaced=False,
    short_names=("ip",),
    inert=True,
    columns=(
        NAME,
        text("ParentRef", _parent),
        AGE,
    ),
)
