"""APIService: which server answers for a group and version. It is only stored."""

from __future__ import annotations

from dray.api.cells import UNKNOWN
from dray.api.columns import AGE, NAME, text
from dray.api.kind import API_EXTENSIONS, REGISTRATION, STATUS, Resource
from dray.api.types import apiregistration


def _service(service: apiregistration.APIService) -> str:
    reference = service.spec.service
    return f"{reference.namespace}/{reference.name}" if reference else "Local"


def _available(service: apiregistration.APIService) -> str:
    state = next((c for c in service.status.conditions if c.type == "Available"), None)
    if state is None:
        return UNKNOWN
    return state.status if state.status == "True" else f"{state.status} ({state.reason})"


KIND = Resource(
    REGISTRATION,
    "apiservices",
    "APIService",
    apiregistration.APIService,
    namespaced=False,
    categories=API_EXTENSIONS,
    subresources=STATUS,
    inert=True,
    columns=(
        NAME,
        text("Service", _service),
        text("Available", _available),
        AGE,
    ),
)
