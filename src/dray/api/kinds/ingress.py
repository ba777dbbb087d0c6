"""Ingress: routes HTTP requests to Services. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.cells import NONE, some
from dray.api.columns import AGE, NAME, text
from dray.api.kind import STATUS, Resource
from dray.api.types import networking

KIND = Resource(
    networking.Ingress,
    short_names=("ing",),
    subresources=STATUS,
    inert=True,
    columns=(
        NAME,
        text("Class", "spec.ingressClassName", NONE),
        text("Hosts", lambda ingress: some([rule.host or "*" for rule in ingress.spec.rules]), "*"),
        text(
            "Address",
            lambda ingress: ",".join(found.ip or found.hostname for found in ingress.status.loadBalancer.ingress),
        ),
        text("Ports", lambda ingress: "80, 443" if ingress.spec.tls else "80"),
        AGE,
    ),
    generation=("spec",),
    status_writes_metadata=True,
)
