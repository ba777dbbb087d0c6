"""IngressClass: the controller that serves the Ingresses of a class. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, text
from dray.api.kind import Resource
from dray.api.types import networking


def _parameters(class_: networking.IngressClass) -> str:
    found = class_.spec.parameters
    if found is None:
        return ""
    kind = f"{found.kind}.{found.apiGroup}" if found.apiGroup else found.kind
    return f"{kind}/{found.name}"


KIND = Resource(
    networking.IngressClass,
    namespaced=False,
    inert=True,
    columns=(NAME, text("Controller", "spec.controller"), text("Parameters", _parameters, NONE), AGE),
    generation=("spec",),
    defaults={"spec.parameters.scope": "Cluster"},
)
