"""IPAddress: an address that is taken, and by what."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from dray.api.columns import AGE, NAME, text
from dray.api.kind import KindRules, Resource
from dray.api.types import networking


def _parent(address: networking.IPAddress) -> str:
    parent = address.spec.parentRef
    parts = (parent.group, parent.resource, parent.namespace, parent.name) if parent else ()
    return "/".join(filter(None, parts))


def _name(text: str) -> Sequence[str]:
    """The name of an object is the address, in its canonical form."""
    try:
        is_canonical = str(ipaddress.ip_address(text)) == text
    except ValueError:
        is_canonical = False
    return [] if is_canonical else ["must be a canonical format IP address"]


KIND = Resource(
    networking.IPAddress,
    namespaced=False,
    short_names=("ip",),
    columns=(NAME, text("ParentRef", _parent), AGE),
    rules=KindRules(update="", name=_name),
)
