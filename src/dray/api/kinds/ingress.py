"""Ingress: which HTTP requests reach which Service. It is only stored."""

from __future__ import annotations

from dray.api.kind import NETWORKING, STATUS, Resource
from dray.api.types import networking

KIND = Resource(
    NETWORKING, "ingresses", "Ingress", networking.Ingress, short_names=("ing",), subresources=STATUS, inert=True
)
