"""Rules for Ingresses and IngressClasses that cannot be expressed as steps: hosts, paths and backends."""

from __future__ import annotations

import re

from dray.api import names
from dray.api.errors import invalid, required
from dray.api.paths import Path
from dray.api.types import core, networking
from dray.api.validation.lists import Errors, named, required_name

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_NOT_ENDING_PATHS = ("/..", "/.")
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_ROOTED = ("Exact", "Prefix")


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


def domain_path(text: str, path: Path) -> Errors:
    """Yield an error if the text does not have the form DOMAIN/PATH, as in `acme.io/foo`."""
    domain, _, rest = text.partition("/")
    if not domain or not rest:
        yield invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from named(domain, path, names.subdomain)
        if not _HTTP_PATH.fullmatch(rest):
            yield invalid(path, rest, f"must be a valid path (regex used for validation is '{_HTTP_PATH.pattern}')")
