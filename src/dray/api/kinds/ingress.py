"""Ingress: routes HTTP requests to Services. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api import names
from dray.api.cells import NONE, some
from dray.api.columns import AGE, NAME, text
from dray.api.errors import invalid, required
from dray.api.kind import STATUS, Resource
from dray.api.paths import Path
from dray.api.rules import Errors, named, required_name
from dray.api.types import core, networking

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_NOT_ENDING_PATHS = ("/..", "/.")
_ROOTED = ("Exact", "Prefix")


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


def class_annotation(ingress: networking.Ingress, _: Path | None) -> Errors:
    """Yield an error if the class annotation differs from ingressClassName."""
    said, class_ = ingress.metadata.annotations.get(_CLASS_ANNOTATION), ingress.spec.ingressClassName
    if said is not None and class_ is not None and said != class_:
        text = "must match `ingressClassName` when both are specified"
        yield invalid(Path("annotations") / _CLASS_ANNOTATION, said, text)


def any_backend(spec: networking.IngressSpec, path: Path) -> Errors:
    """Yield an error if an Ingress has neither rules nor a default backend."""
    if not spec.rules and spec.defaultBackend is None:
        yield invalid(path, [], "either `defaultBackend` or `rules` must be specified")


def url_path(item: networking.HTTPIngressPath, path: Path) -> Errors:
    """Yield errors in the path of a rule, depending on its pathType."""
    text, here = item.path, path / "path"
    if item.pathType == "ImplementationSpecific":
        if text and not text.startswith("/"):
            yield invalid(here, text, "must be an absolute path")
    elif item.pathType in _ROOTED:
        if not text.startswith("/"):
            yield invalid(here, text, "must be an absolute path")
        yield from (invalid(here, text, f"must not contain '{part}'") for part in _NOT_IN_PATHS if part in text)
        for end in _NOT_ENDING_PATHS:
            if text.endswith(end):
                yield invalid(here, text, f"cannot end with '{end}'")


def backend(value: networking.IngressBackend, path: Path) -> Errors:
    """Yield errors unless a backend has exactly one of a valid service and a valid resource."""
    if value.service is not None and value.resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif value.resource is not None:
        yield from _reference(value.resource, path / "resource")
    elif value.service is not None:
        yield from _service_backend(value.service, path)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _reference(reference: core.TypedLocalObjectReference, path: Path) -> Errors:
    if reference.apiGroup is not None:
        yield from named(reference.apiGroup, path / "apiGroup", names.subdomain)
    for field in ("kind", "name"):
        yield from required_name(getattr(reference, field), path / field, names.path_segment, f"{field} is required")


def _service_backend(service: networking.IngressServiceBackend, path: Path) -> Errors:
    yield from required_name(service.name, path / "service" / "name", names.label_1035)
    port, here = service.port, path / "service" / "port"
    if port.name and port.number:
        yield invalid(path, "", "cannot set both port name & port number")
    elif port.name:
        yield from named(port.name, here / "name", names.port_name)
    elif port.number:
        yield from named(port.number, here / "number", names.port_number)
    else:
        yield required(path, "port name or number is required")
