"""IPAddress: an allocated address and the object that uses it."""

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
    """Return an error message if the text is not an IP address in canonical form; the object's name is the address."""
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
