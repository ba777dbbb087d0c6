"""IngressClass: which controller serves the Ingresses of a class. It is only stored."""

from __future__ import annotations

from dray.api.kind import NETWORKING, Resource
from dray.api.types import networking

KIND = Resource(NETWORKING, "ingressclasses", "IngressClass", networking.IngressClass, namespaced=False, inert=True)
