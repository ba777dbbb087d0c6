"""APIService: the server that serves an API group and version. Stored only; dray does not act on it."""

from __future__ import annotations

import time

from dray.api import names
from dray.api.cells import UNKNOWN
from dray.api.columns import AGE, NAME, text
from dray.api.errors import invalid
from dray.api.kind import API_EXTENSIONS, STATUS, KindRules, Resource
from dray.api.paths import METADATA, Path
from dray.api.rules import Errors
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


def api_service_name(service: apiregistration.APIService, _: Path | None) -> Errors:
    """Yield an error if the name of an APIService is not VERSION.GROUP of its spec. A missing name is no error here."""
    expected = f"{service.spec.version}.{service.spec.group}"
    if service.metadata.name and service.metadata.name != expected:
        text = f'must be `spec.version+"."+spec.group`: "{expected}"'
        yield invalid(METADATA / "name", service.metadata.name, text)


def ca_bundle(spec: apiregistration.APIServiceSpec, path: Path) -> Errors:
    """Yield errors if an APIService has a caBundle but is local or skips TLS verification."""
    if spec.service is None and spec.caBundle:
        yield invalid(path / "caBundle", f"{len(spec.caBundle)} bytes", "local APIServices may not have a caBundle")
    if spec.insecureSkipTLSVerify and spec.caBundle:
        yield invalid(path / "insecureSkipTLSVerify", True, "may not be true if caBundle is present")
