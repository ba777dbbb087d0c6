"""APIService: the server that serves an API group and version. Stored only; dray does not act on it."""

from __future__ import annotations

import time

from dray.api import names
from dray.api.cells import UNKNOWN
from dray.api.columns import AGE, NAME, text
from dray.api.kind import API_EXTENSIONS, STATUS, KindRules, Resource
from dray.api.times import timestamp
from dray.api.types import apiregistration
from dray.api.wire import Tree


def _service(service: apiregistration.APIService) -> str:
    reference = service.spec.service
    return f"{reference.namespace}/{reference.name}" if reference else "Local"


def _available(service: apiregistration.APIService) -> str:
    state = next((c for c in service.status.conditions if c.type == "Available"), None)
    if state is None:
        return UNKNOWN
    return state.status if state.status == "True" else f"{state.status} ({state.reason})"


def _create(tree: Tree) -> None:
    """Set the status of an APIService without an external service to available."""
    if not (tree.get("spec") or {}).get("service"):
        text = "Local APIServices are always available"
        available = {"type": "Available", "status": "True", "reason": "Local", "message": text}
        tree["status"] = {"conditions": [{**available, "lastTransitionTime": timestamp(time.time())}]}


KIND = Resource(
    apiregistration.APIService,
    namespaced=False,
    categories=API_EXTENSIONS,
    subresources=STATUS,
    inert=True,
    columns=(NAME, text("Service", _service), text("Available", _available), AGE),
    conditional=("v1",),
    rules=KindRules(name=names.path_segment, order=("changes", "metadata", "rules")),
    defaults={"spec.service.port": 443},
    on_create=_create,
)
